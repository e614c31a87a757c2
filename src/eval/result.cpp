#include "eval/result.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/named.h"
#include "base/text_table.h"

namespace ddpm::eval {
namespace {

using base::OrderedJson;

/// How exact values are, which are computed.
constexpr double kExactAccuracy = 1e-9;
/// What is left, relative to a mean, of the deviations of samples that are all alike.
constexpr double kRounding = 1e-13;

/// JSON has neither NaN nor infinity.
OrderedJson number(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr); }

void put(OrderedJson& json, const char* key, const std::optional<double>& value) {
  if (value) json[key] = number(*value);
}

/// A deviation without an error is infinite: "inf" or "-inf".
void put_sigmas(OrderedJson& json, const std::optional<double>& sigmas) {
  if (!sigmas) return;
  json["sigmas"] = std::isinf(*sigmas) ? OrderedJson(*sigmas > 0 ? "inf" : "-inf") : number(*sigmas);
}

void put(OrderedJson& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

void put_interval(OrderedJson& json, const Estimate& estimate) {
  json["low"] = number(estimate.low);
  json["high"] = number(estimate.high);
  json["standard_error"] = number(estimate.standard_error);
}

OrderedJson json_of(const Metric& metric) {
  OrderedJson json = {{"name", metric.name}};
  put(json, "variable", metric.variable);
  if (!metric.level.is_null()) json["level"] = metric.level;
  put(json, "unit", metric.unit);
  json["value"] = number(metric.estimate.value);
  put_interval(json, metric.estimate);
  json["method"] = base::name_of(metric.estimate.method);
  json["units"] = metric.estimate.units;
  json["sets"] = metric.estimate.sets;
  put(json, "reference", metric.reference);
  put(json, "reference_error", metric.reference_error);
  if (metric.is_exact) json["exact"] = true;
  put(json, "limit", metric.limit);
  put_sigmas(json, metric.sigmas);
  put(json, "p_value", metric.p_value);
  put(json, "verdict", metric.verdict);
  if (metric.detail) json["detail"] = true;
  return json;
}

OrderedJson json_of(const Comparison& comparison) {
  OrderedJson json = {{"metric", comparison.metric}};
  put(json, "variable", comparison.variable);
  put(json, "level", comparison.level);
  json["a"] = number(comparison.a);
  json["b"] = number(comparison.b);
  json["difference"] = number(comparison.difference.value);
  put_interval(json, comparison.difference);
  json["p_value"] = number(comparison.p_value);
  json["p_adjusted"] = number(comparison.p_adjusted);
  json["verdict"] = base::name_of(comparison.verdict);
  return json;
}

OrderedJson paths_of(const std::vector<std::filesystem::path>& paths) {
  OrderedJson list = OrderedJson::array();
  for (const auto& path : paths) list.push_back(path.string());
  return list;
}

std::string cell(double value) { return std::isfinite(value) ? fmt::format("{:.5g}", value) : "-"; }
std::string cell(const std::optional<double>& value) { return value ? cell(*value) : ""; }

std::string text_of_p(double p) { return std::isnan(p) ? "-" : p < 1e-4 ? "<0.0001" : fmt::format("{:.4f}", p); }

/// Which columns a table has beside those that all have.
struct Columns {
  bool variable = false;
  bool level = false;
  bool limit = false;
  bool p = false;
};

Columns columns_of(const std::vector<Metric>& metrics) {
  Columns columns;
  for (const Metric& m : metrics) {
    if (m.detail) continue;
    columns.variable = columns.variable || !m.variable.empty();
    columns.level = columns.level || !m.level.is_null();
    columns.limit = columns.limit || m.limit.has_value();
    columns.p = columns.p || m.p_value.has_value();
  }
  return columns;
}

std::vector<std::string> heading(const Columns& columns) {
  std::vector<std::string> cells = {"metric"};
  if (columns.variable) cells.emplace_back("variable");
  if (columns.level) cells.emplace_back("level");
  cells.insert(cells.end(), {"value", "error", "95 % from", "to", "reference", "sigma"});
  if (columns.limit) cells.emplace_back("infinite lattice");
  if (columns.p) cells.emplace_back("p");
  return cells;
}

std::vector<std::string> cells_of(const Metric& m, const Columns& columns) {
  std::vector<std::string> cells = {m.unit.empty() ? m.name : fmt::format("{} [{}]", m.name, m.unit)};
  if (columns.variable) cells.push_back(m.variable);
  if (columns.level) cells.push_back(m.level_text());
  const double error = m.estimate.standard_error;
  cells.push_back(cell(m.estimate.value));
  cells.push_back(std::isfinite(error) ? fmt::format("{:.2g}", error) : "-");
  for (const double end : {m.estimate.low, m.estimate.high}) cells.push_back(cell(end));
  cells.push_back(cell(m.reference));
  cells.push_back(m.sigmas ? fmt::format("{:+.1f}", *m.sigmas) : "");
  if (columns.limit) cells.push_back(cell(m.limit));
  if (columns.p) cells.push_back(m.p_value ? text_of_p(*m.p_value) : "");
  return cells;
}

std::string metrics_text(const std::vector<Metric>& metrics) {
  const Columns columns = columns_of(metrics);
  const std::size_t words = 1 + (columns.variable ? 1U : 0U) + (columns.level ? 1U : 0U);
  base::TextTable table(std::vector<base::Align>(words, base::Align::left), 2, "  ");
  table.add(heading(columns));
  for (const Metric& m : metrics) {
    if (!m.detail) table.add(cells_of(m, columns));
  }
  return table.text();
}

std::string comparisons_text(const std::vector<Comparison>& comparisons) {
  using base::Align;
  base::TextTable table({Align::left, Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
                         Align::right, Align::left},
                        2, "  ");
  table.add({"less is better", "variable", "level", "A", "B", "A - B", "error", "p", "verdict"});
  for (const Comparison& c : comparisons) {
    table.add({c.metric, c.variable, c.level, cell(c.a), cell(c.b), cell(c.difference.value),
               cell(c.difference.standard_error), text_of_p(c.p_adjusted), std::string(base::name_of(c.verdict))});
  }
  return table.text();
}

std::string list_of(const std::vector<std::filesystem::path>& paths) {
  std::string text;
  for (const auto& path : paths) text += (text.empty() ? "" : ", ") + path.string();
  return text;
}

}  // namespace

Metric& Metric::against(double exact, double exact_error) {
  reference = exact;
  if (exact_error > 0.0) reference_error = exact_error;
  if (std::isnan(estimate.standard_error)) return *this;
  const double alike = kRounding * std::abs(estimate.value);
  const double error = std::hypot(estimate.standard_error > alike ? estimate.standard_error : 0.0, exact_error);
  if (error > 0.0) sigmas = (estimate.value - exact) / error;
  // Samples that are all alike have no error, and an exact value that they miss is missed by more than chance.
  const double off = std::abs(estimate.value - exact);
  if (error == 0.0 && off > kExactAccuracy * std::max(1.0, std::abs(exact)))
    sigmas = std::copysign(HUGE_VAL, estimate.value - exact);
  return *this;
}

std::string Metric::level_text() const {
  if (level.is_null()) return {};
  if (level.is_string()) return level.get<std::string>();
  return level.is_number_float() ? fmt::format("{:.6g}", level.get<double>()) : level.dump();
}

OrderedJson to_json(const Result& result) {
  OrderedJson metrics = OrderedJson::array();
  for (const Metric& metric : result.metrics) metrics.push_back(json_of(metric));
  OrderedJson comparisons = OrderedJson::array();
  for (const Comparison& comparison : result.comparisons) comparisons.push_back(json_of(comparison));
  return {{"format", kResultFormat},
          {"kind", base::name_of(result.kind)},
          {"data", result.data.empty() ? OrderedJson(nullptr) : OrderedJson(result.data.string())},
          {"samples", paths_of(result.samples)},
          {"against", paths_of(result.others)},
          {"count", result.count},
          {"settings", result.settings},
          {"metrics", metrics},
          {"comparisons", comparisons},
          {"notes", result.notes}};
}

std::string to_text(const Result& result) {
  std::string text = list_of(result.samples);
  if (!result.data.empty()) text += fmt::format("{}against {}", text.empty() ? "" : " ", result.data.string());
  text += fmt::format(": {}\n\n", base::counted(result.count, result.kind == ResultKind::loss ? "image" : "sample"));
  if (!result.metrics.empty()) text += metrics_text(result.metrics);
  if (!result.comparisons.empty()) {
    text += fmt::format("\nA: {}\nB: {}\n{}", list_of(result.samples), list_of(result.others),
                        comparisons_text(result.comparisons));
  }
  if (!result.notes.empty()) text += "\n";
  for (const std::string& note : result.notes) text += note + "\n";
  return text;
}

}  // namespace ddpm::eval
