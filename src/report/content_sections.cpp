#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/counted.h"
#include "report/html.h"
#include "report/sections.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

Cell optional_cell(const std::optional<double>& value) { return number_cell(value ? number_text(*value, 5) : ""); }

Cell interval_cell(const EvaluatedMetric& metric) {
  if (!metric.low || !metric.high) {
    return number_cell(metric.standard_error ? "± " + number_text(*metric.standard_error, 2) : "");
  }
  return number_cell(fmt::format("{} to {}", number_text(*metric.low, 5), number_text(*metric.high, 5)));
}

Cell sigmas_cell(const std::optional<double>& sigmas) {
  if (!sigmas) return number_cell("");
  return number_cell(std::isinf(*sigmas) ? (*sigmas > 0 ? "+∞" : "−∞") : number_text(*sigmas, 3));
}

std::string of_what(const std::string& variable, const std::string& level) {
  return variable.empty() || level.empty() ? variable + level : variable + " " + level;
}

std::string metrics_table(const Evaluation& evaluation) {
  const bool tests = std::ranges::any_of(evaluation.metrics, [](const auto& one) { return one.p_value.has_value(); });
  std::vector<std::vector<Cell>> rows;
  for (const EvaluatedMetric& metric : evaluation.metrics) {
    const std::string name = metric.unit.empty() ? metric.name : fmt::format("{} [{}]", metric.name, metric.unit);
    rows.push_back({text_cell(name), text_cell(of_what(metric.variable, metric.level)), optional_cell(metric.value),
                    interval_cell(metric), optional_cell(metric.reference), sigmas_cell(metric.sigmas)});
    if (tests) rows.back().push_back(number_cell(metric.p_value ? number_text(*metric.p_value, 2) : ""));
    rows.back().push_back(text_cell(metric.verdict));
  }
  std::vector<std::string> titles = {"Metric", "Of", "Value", "Interval", "Reference", "σ off"};
  if (tests) titles.emplace_back("p");
  titles.emplace_back("Verdict");
  return table(titles, rows);
}

std::string comparisons_table(const Evaluation& evaluation) {
  if (evaluation.comparisons.empty()) return "";
  std::vector<std::vector<Cell>> rows;
  for (const EvaluatedComparison& one : evaluation.comparisons) {
    const std::string error = one.standard_error ? " ± " + number_text(*one.standard_error, 2) : "";
    rows.push_back({text_cell(one.metric), text_cell(of_what(one.variable, one.level)), optional_cell(one.a),
                    optional_cell(one.b), number_cell(one.difference ? number_text(*one.difference, 3) + error : ""),
                    number_cell(one.p_adjusted ? number_text(*one.p_adjusted, 2) : ""), text_cell(one.verdict)});
  }
  return element("h3", "", "Comparison") +
         element("p", "soft", escaped(fmt::format("A: {}. B: {}.", evaluation.samples, evaluation.against))) +
         table({"Less is better", "Of", "A", "B", "A − B", "p", "Verdict"}, rows);
}

/// Says of which weights the numbers are, and where these are not the run's newest. Samples do not tell the model that
/// they were drawn from, so that the age of the file has to do.
std::string weights_text(const Evaluation& evaluation, const RunRecord& record, const Measures& measures) {
  std::string text;
  if (!evaluation.weights.empty()) text = fmt::format("Weights: {}.", evaluation.weights);
  if (!evaluation.against_weights.empty()) text += fmt::format(" Those of B: {}.", evaluation.against_weights);
  if (evaluation.step && *evaluation.step < measures.step) {
    text += fmt::format(" The run has gone on to step {} since.", base::grouped(measures.step));
  }
  if (!evaluation.weights.empty()) return text;
  text +=
      fmt::format("The file does not say of which step the {} are.", evaluation.kind == "loss" ? "weights" : "samples");
  const auto newest = std::ranges::find_if(record.checkpoints, [](const auto& one) { return one.problem.empty(); });
  if (newest != record.checkpoints.end() && evaluation.written < newest->written) {
    text += fmt::format(" It is older than the checkpoint of step {}, so they are of an earlier one.",
                        base::grouped(newest->step));
  }
  return text;
}

std::string evaluation_card(const Evaluation& evaluation, const RunRecord& record, const Measures& measures) {
  std::string about = fmt::format("Evaluation of {}", evaluation.kind);
  if (!evaluation.count.empty()) {
    about += fmt::format(", {} {}", evaluation.count, evaluation.kind == "loss" ? "images" : "samples");
  }
  if (!evaluation.samples.empty()) about += " of " + evaluation.samples;
  if (!evaluation.data.empty()) about += " against " + evaluation.data;
  std::string notes;
  for (const std::string& note : evaluation.notes) notes += element("p", "soft", escaped(note));
  return element("div", "card",
                 element("h3", "", escaped(evaluation.file)) + element("p", "soft", escaped(about)) +
                     element("p", "soft", escaped(weights_text(evaluation, record, measures))) +
                     metrics_table(evaluation) + comparisons_table(evaluation) + notes);
}

std::string whole_configuration(const RunRecord& record) {
  std::vector<std::vector<Cell>> rows;
  for (const Setting& setting : record.settings) {
    rows.push_back({text_cell(setting.path), {"<code>" + escaped(setting.value) + "</code>", false}});
  }
  return fmt::format("<details><summary>All keys of {}</summary>\n{}</details>\n", escaped(record.name),
                     table({"Key", "Value"}, rows));
}

}  // namespace

std::string curves_section(const Figures& figures) {
  if (figures.charts.empty()) return "";
  return section(
      "curves-of-runs", "Curves",
      "<p class=\"soft\">Drag across a chart to see a part of it, and click twice to see all again.</p>\n"
      "<noscript><p>The curves are drawn by a script in this page, which your browser does not run.</p></noscript>\n"
      "<div class=\"charts\" id=\"charts\"></div>\n");
}

std::string pictures_section(const Figures& figures) {
  std::string html;
  for (std::size_t i = 0; i < figures.records.size(); ++i) {
    const RunRecord& record = figures.records[i];
    if (record.pictures.empty()) continue;
    std::string shown;
    for (const Picture& picture : record.pictures) {
      shown += fmt::format(
          "<figure><img src=\"{}\" alt=\"samples after step {}\"><figcaption>Step {}</figcaption></figure>\n",
          picture.uri, picture.step, base::grouped(picture.step));
    }
    html += run_heading(figures, i) + element("div", "pictures", "\n" + shown);
    if (record.pictures_left_out > 0) {
      html += element("p", "soft",
                      fmt::format("{} of its {} pictures are shown, evenly chosen.", record.pictures.size(),
                                  record.pictures_left_out + std::ssize(record.pictures)));
    }
  }
  return section("pictures", "Pictures during training", html);
}

std::string evaluation_section(const Figures& figures) {
  std::string html;
  for (std::size_t i = 0; i < figures.records.size(); ++i) {
    if (figures.records[i].evaluations.empty()) continue;
    html += run_heading(figures, i);
    for (const Evaluation& evaluation : figures.records[i].evaluations)
      html += evaluation_card(evaluation, figures.records[i], figures.runs[i].measures);
  }
  return section("evaluation", "Evaluation", html);
}

std::string configuration_section(const Figures& figures) {
  std::string html;
  if (figures.records.size() > 1) {
    std::vector<std::string> titles = {"Key"};
    for (const RunRecord& record : figures.records) titles.push_back(record.name);
    std::vector<std::vector<Cell>> rows;
    for (const DifferingKey& key : figures.differences) {
      std::vector<Cell> row = {text_cell(key.path)};
      for (const std::string& value : key.values) row.push_back({"<code>" + escaped(value) + "</code>", false});
      rows.push_back(std::move(row));
    }
    html += rows.empty() ? "<p>The runs have the same configuration.</p>\n"
                         : "<p>What differs between the runs:</p>\n" + table(titles, rows);
  }
  for (const RunRecord& record : figures.records) {
    if (!record.settings.empty()) html += whole_configuration(record);
  }
  return html.empty() ? "" : section("configuration", "Configuration", element("div", "card", html));
}

}  // namespace ddpm::report
