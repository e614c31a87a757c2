#include "report/evaluation.h"

#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_number.h"

namespace ddpm::report {
namespace {

constexpr std::size_t kMostRows = 5'000;

std::string text_of(const base::Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : base::excerpt(value);
}

/// A scalar, or several of a list, as a reader sees them; "" for null and what is absent.
std::string text_of(const base::Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (!found->is_array()) return text_of(*found);
  std::vector<std::string> texts;
  for (const base::Json& one : *found) texts.push_back(text_of(one));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::optional<double> number_of(const base::Json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (*found == "inf" || *found == "-inf") return *found == "inf" ? HUGE_VAL : -HUGE_VAL;
  if (!found->is_number()) throw base::OutputError("{}: {} is {}; wanted: a number", place, key, base::excerpt(*found));
  return found->get<double>();
}

EvaluatedMetric metric_of(const base::Json& json, const std::string& place) {
  const base::JsonFields fields(json, place, {"name"}, base::JsonFields::Others::ignored);
  return {.name = fields.text("name"),
          .variable = text_of(json, "variable"),
          .level = text_of(json, "level"),
          .unit = text_of(json, "unit"),
          .value = number_of(json, "value", place),
          .low = number_of(json, "low", place),
          .high = number_of(json, "high", place),
          .standard_error = number_of(json, "standard_error", place),
          .reference = number_of(json, "reference", place),
          .sigmas = number_of(json, "sigmas", place),
          .p_value = number_of(json, "p_value", place),
          .verdict = text_of(json, "verdict")};
}

EvaluatedComparison comparison_of(const base::Json& json, const std::string& place) {
  const base::JsonFields fields(json, place, {"metric", "verdict"}, base::JsonFields::Others::ignored);
  return {.metric = fields.text("metric"),
          .variable = text_of(json, "variable"),
          .level = text_of(json, "level"),
          .a = number_of(json, "a", place),
          .b = number_of(json, "b", place),
          .difference = number_of(json, "difference", place),
          .standard_error = number_of(json, "standard_error", place),
          .p_adjusted = number_of(json, "p_adjusted", place),
          .verdict = fields.text("verdict")};
}

/// Whether a metric is one of many like it, which tables leave out.
bool is_detail(const base::Json& metric) { return metric.is_object() && metric.value("detail", base::Json()) == true; }

/// Takes the rows of a list that a page shows, and says where they are more than it takes.
template <typename Row, typename Make>
void take_rows(const base::JsonFields& fields, const char* key, const Make& make, std::vector<Row>& rows,
               std::vector<std::string>& notes) {
  const base::Json& list = fields.array(key);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_detail(list[i])) continue;
    if (rows.size() == kMostRows) {
      notes.push_back(fmt::format("The file has more {} than the {} that are shown.", key, kMostRows));
      return;
    }
    rows.push_back(make(list[i], fmt::format("{}: {}[{}]", fields.place(), key, i)));
  }
}

void expect_known_format(const base::JsonFields& fields) {
  constexpr int64_t kKnown = 1;
  const int64_t format = fields.integer("format", 1, std::numeric_limits<int64_t>::max());
  if (format == kKnown) return;
  throw base::OutputError("{}: format {}, this program reads {}: a newer ddpm wrote it", fields.place(), format,
                          kKnown);
}

/// The step that the weights of a checkpoint are of: "step 60, ema:0 weights".
std::optional<int64_t> step_in(std::string_view weights) {
  constexpr std::string_view kBegin = "step ";
  if (!weights.starts_with(kBegin)) return std::nullopt;
  const std::string_view rest = weights.substr(kBegin.size());
  return base::parse_number<int64_t>(rest.substr(0, rest.find(',')));
}

}  // namespace

Evaluation parse_evaluation(std::string_view text, const std::string& place) {
  const base::Json json = base::parse_json_file(text, place, kMostEvaluationBytes);
  const base::JsonFields fields(json, place, {"format", "kind", "metrics"}, base::JsonFields::Others::ignored);
  expect_known_format(fields);
  Evaluation evaluation{.file = {},
                        .kind = fields.text("kind"),
                        .data = text_of(json, "data"),
                        .samples = text_of(json, "samples"),
                        .against = text_of(json, "against"),
                        .count = text_of(json, "count")};
  if (fields.has("settings")) {
    const base::Json& settings = fields.object("settings");
    evaluation.weights = text_of(settings, "weights");
    evaluation.against_weights = text_of(settings, "against_weights");
    evaluation.step = step_in(evaluation.weights);
  }
  if (fields.has("notes")) {
    for (const base::Json& note : fields.array("notes")) evaluation.notes.push_back(text_of(note));
  }
  take_rows(fields, "metrics", metric_of, evaluation.metrics, evaluation.notes);
  if (fields.has("comparisons")) {
    take_rows(fields, "comparisons", comparison_of, evaluation.comparisons, evaluation.notes);
  }
  return evaluation;
}

}  // namespace ddpm::report
