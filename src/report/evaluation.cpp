#include "report/evaluation.h"

#include "base/error.h"
#include "base/json_fields.h"

namespace ddpm::report {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{64} << 20U;
constexpr std::size_t kMostRows = 5'000;

/// A scalar as a reader sees it; "" for null and what is absent.
std::string text_of(const base::Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : base::excerpt(*found);
}

std::optional<double> number_of(const base::Json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_number()) throw base::OutputError("{}: {} is {}; wanted: a number", place, key, base::excerpt(*found));
  return found->get<double>();
}

EvaluatedMetric metric_of(const base::Json& json, const std::string& place) {
  const base::JsonFields fields(json, place, {"name"}, base::JsonFields::Others::ignored);
  return {.name = fields.text("name"),
          .variable = text_of(json, "variable"),
          .level = text_of(json, "level"),
          .value = number_of(json, "value", place),
          .low = number_of(json, "low", place),
          .high = number_of(json, "high", place),
          .standard_error = number_of(json, "standard_error", place),
          .reference = number_of(json, "reference", place),
          .sigmas = number_of(json, "sigmas", place),
          .verdict = text_of(json, "verdict")};
}

/// The rows of a list, of which a page shows no more than kMostRows.
const base::Json& rows_of(const base::JsonFields& fields, const char* key) {
  const base::Json& rows = fields.array(key);
  if (rows.size() > kMostRows) {
    throw base::OutputError("{}: {} has {} entries; wanted: at most {}", fields.place(), key, rows.size(), kMostRows);
  }
  return rows;
}

}  // namespace

Evaluation parse_evaluation(std::string_view text, const std::string& place) {
  const base::Json json = base::parse_json_file(text, place, kMaxBytes);
  const base::JsonFields fields(json, place, {"format", "kind", "metrics"}, base::JsonFields::Others::ignored);
  static_cast<void>(fields.integer("format", 1, 1));
  Evaluation evaluation{.file = {},
                        .kind = fields.text("kind"),
                        .data = text_of(json, "data"),
                        .samples = text_of(json, "samples"),
                        .count = text_of(json, "count"),
                        .metrics = {},
                        .comparisons = {}};
  const base::Json& metrics = rows_of(fields, "metrics");
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    evaluation.metrics.push_back(metric_of(metrics[i], fmt::format("{}: metrics[{}]", place, i)));
  }
  if (!fields.has("comparisons")) return evaluation;
  for (const base::Json& one : rows_of(fields, "comparisons")) {
    std::vector<std::pair<std::string, std::string>> row;
    if (one.is_object()) {
      for (const auto& [key, value] : one.items()) row.emplace_back(key, text_of(one, key.c_str()));
    } else {
      row.emplace_back("comparison", one.is_string() ? one.get<std::string>() : base::excerpt(one));
    }
    evaluation.comparisons.push_back(std::move(row));
  }
  return evaluation;
}

}  // namespace ddpm::report
