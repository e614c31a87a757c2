#include <algorithm>

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

std::string metrics_table(const Evaluation& evaluation) {
  std::vector<std::vector<Cell>> rows;
  for (const EvaluatedMetric& metric : evaluation.metrics) {
    const std::string what = metric.level.empty() ? metric.variable : metric.variable + " " + metric.level;
    rows.push_back({text_cell(metric.name), text_cell(what), optional_cell(metric.value), interval_cell(metric),
                    optional_cell(metric.reference), optional_cell(metric.sigmas), text_cell(metric.verdict)});
  }
  return table({"Metric", "Of", "Value", "Interval", "Reference", "σ off", "Verdict"}, rows);
}

/// Each comparison has keys of its own kind: the titles are those of all, in the order in which they appear.
std::string comparisons_table(const Evaluation& evaluation) {
  std::vector<std::string> titles;
  for (const auto& row : evaluation.comparisons) {
    for (const auto& [key, value] : row) {
      if (std::find(titles.begin(), titles.end(), key) == titles.end()) titles.push_back(key);
    }
  }
  if (titles.empty()) return "";
  std::vector<std::vector<Cell>> rows;
  for (const auto& row : evaluation.comparisons) {
    std::vector<Cell> cells(titles.size());
    for (const auto& [key, value] : row) {
      cells[static_cast<std::size_t>(std::find(titles.begin(), titles.end(), key) - titles.begin())] = text_cell(value);
    }
    rows.push_back(std::move(cells));
  }
  return element("h3", "", "Comparisons") + table(titles, rows);
}

std::string evaluation_card(const Evaluation& evaluation) {
  std::string about = fmt::format("Evaluation of {}", evaluation.kind);
  if (!evaluation.count.empty()) about += fmt::format(", {} samples", evaluation.count);
  if (!evaluation.samples.empty()) about += " of " + evaluation.samples;
  if (!evaluation.data.empty()) about += " against " + evaluation.data;
  return element("div", "card",
                 element("h3", "", escaped(evaluation.file)) + element("p", "soft", escaped(about)) +
                     metrics_table(evaluation) + comparisons_table(evaluation));
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
    for (const Evaluation& evaluation : figures.records[i].evaluations) html += evaluation_card(evaluation);
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
