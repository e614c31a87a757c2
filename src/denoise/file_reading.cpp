#include "denoise/file_reading.h"

#include <iterator>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json_fields.h"
#include "data/variable_request.h"

namespace ddpm::denoise {
namespace {

// Only where they are set.
constexpr const char* kLabels = "labels";
constexpr const char* kMaskVariable = "mask";
constexpr const char* kMissingValues = "missing";

std::vector<std::string> texts_of(const std::vector<data::VariableRequest>& requests) {
  std::vector<std::string> texts;
  std::ranges::transform(requests, std::back_inserter(texts), &data::VariableRequest::text);
  return texts;
}

}  // namespace

base::Json to_json(const data::DatasetOptions& reading) {
  base::Json json = {{"variables", reading.variables},
                     {"axes", reading.axes},
                     {"sample_axes", reading.sample_axes},
                     {"condition", reading.condition},
                     {"static", reading.static_values},
                     {"parameters", reading.parameters},
                     {"lead", reading.lead}};
  if (reading.names_label_variable()) json[kLabels] = reading.labels;
  if (!reading.mask.empty()) json[kMaskVariable] = reading.mask;
  if (reading.missing != data::Missing::refuse) json[kMissingValues] = base::name_of(reading.missing);
  return json;
}

data::DatasetOptions parse_file_reading(const base::Json& json, const std::string& place) {
  const base::JsonFields fields(json, place,
                                {"variables", "axes", "sample_axes", "condition", "static", "parameters", "lead"},
                                {kLabels, kMaskVariable, kMissingValues});
  const bool labelled = fields.has(kLabels);
  const auto list = [&](const char* key) {
    return base::to_texts(fields.array(key), fmt::format("{}.{}", place, key));
  };
  data::DatasetOptions reading{.condition = fields.text("condition"),
                               .static_values = fields.text("static"),
                               .parameters = fields.text("parameters"),
                               .variables = list("variables"),
                               .axes = list("axes"),
                               .sample_axes = list("sample_axes"),
                               .lead = fields.integer("lead")};
  if (labelled) reading.labels = fields.text(kLabels);
  if (fields.has(kMaskVariable)) reading.mask = fields.text(kMaskVariable);
  if (fields.has(kMissingValues)) reading.missing = fields.named<data::Missing>(kMissingValues);
  if (reading.variables.empty()) throw base::OutputError("{}.variables: wanted at least one", place);
  try {
    for (const std::string& text : reading.variables) static_cast<void>(data::parse_request(text, "variables"));
    static_cast<void>(data::parse_requests(reading.condition, "condition"));
    static_cast<void>(data::parse_requests(reading.static_values, "static"));
    static_cast<void>(data::parse_requests(reading.parameters, "parameters"));
    static_cast<void>(data::parse_requests(reading.mask, kMaskVariable));
    if (labelled) static_cast<void>(data::parse_request(reading.labels, kLabels));
  } catch (const base::ConfigError& error) {
    throw base::OutputError("{}: {}", place, error.what());
  }
  return reading;
}

data::DatasetOptions reading_of_conditions(const data::DatasetOptions& reading, bool same_size) {
  std::vector<std::string> given = reading.lead > 0 ? reading.variables : std::vector<std::string>();
  std::ranges::move(texts_of(data::parse_requests(reading.condition, "condition")), std::back_inserter(given));
  data::DatasetOptions conditions = reading;
  conditions.lead = 0;
  conditions.mask_use = reading.lead > 0 ? data::MaskUse::lasting : data::MaskUse::optional;
  if (reading.lead > 0) conditions.missing = data::Missing::refuse;
  conditions.condition = fmt::format("{}", fmt::join(given, ", "));
  if (!same_size || given.empty()) return conditions;
  (conditions.missing == data::Missing::mask ? conditions.stand_ins : conditions.variables) = std::move(given);
  return conditions;
}

}  // namespace ddpm::denoise
