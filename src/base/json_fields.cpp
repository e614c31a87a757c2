#include "base/json_fields.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::base {
namespace {

/// Throws where `json` has a key for which `known` says no.
template <typename Known>
void refuse_others(const base::Json& json, const std::string& place, const Known& known) {
  for (const auto& [key, value] : json.items()) {
    if (!known(key)) throw base::OutputError("{}: unknown key '{}'", place, key);
  }
}

bool among(const std::vector<std::string_view>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace

JsonFields::JsonFields(const base::Json& json, std::string place, const std::vector<std::string_view>& keys,
                       Others others)
    : json_(json), place_(std::move(place)) {
  expect(keys);
  if (others == Others::refused) refuse_others(json, place_, [&](const auto& key) { return among(keys, key); });
}

JsonFields::JsonFields(const base::Json& json, std::string place, const std::vector<std::string_view>& keys,
                       const std::vector<std::string_view>& optional)
    : json_(json), place_(std::move(place)) {
  expect(keys);
  refuse_others(json, place_, [&](const auto& key) { return among(keys, key) || among(optional, key); });
}

void JsonFields::expect(const std::vector<std::string_view>& keys) const {
  if (!json_.is_object()) throw base::OutputError("{}: is {}, wanted an object", place_, base::excerpt(json_));
  for (const std::string_view key : keys) {
    if (!json_.contains(key)) throw base::OutputError("{}: key '{}' is missing", place_, key);
  }
}

const base::Json& JsonFields::at(std::string_view key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) throw base::OutputError("{}: key '{}' is missing", place_, key);
  return *found;
}

void JsonFields::fail(std::string_view key, std::string_view wanted) const {
  throw base::OutputError("{}: '{}' is {}, wanted {}", place_, key, base::excerpt(at(key)), wanted);
}

void JsonFields::fail_unnamed(std::string_view key, const std::vector<std::string>& names) const {
  fail(key, fmt::format("one of {}", fmt::join(names, ", ")));
}

const std::string& JsonFields::text(std::string_view key) const {
  if (!at(key).is_string()) fail(key, "a string");
  return at(key).get_ref<const std::string&>();
}

int64_t JsonFields::integer(std::string_view key) const {
  return to_integer(at(key), fmt::format("{}: '{}'", place_, key));
}

int64_t JsonFields::integer(std::string_view key, int64_t least, int64_t most) const {
  const int64_t value = integer(key);
  if (value >= least && value <= most) return value;
  fail(key, least == most ? std::to_string(least) : fmt::format("{} to {}", least, most));
}

double JsonFields::number(std::string_view key) const {
  if (!at(key).is_number()) fail(key, "a number");
  return at(key).get<double>();
}

double JsonFields::number(std::string_view key, double least, double most) const {
  const base::Json& value = at(key);
  const double number = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (number >= least && number <= most) return number;
  fail(key, fmt::format("a number from {} to {}", least, most));
}

std::vector<int64_t> JsonFields::integers(std::string_view key) const {
  std::vector<int64_t> values;
  for (const base::Json& item : array(key)) values.push_back(to_integer(item, fmt::format("{}: '{}'", place_, key)));
  return values;
}

const base::Json& JsonFields::array(std::string_view key) const {
  if (!at(key).is_array()) fail(key, "an array");
  return at(key);
}

const base::Json& JsonFields::object(std::string_view key) const {
  if (!at(key).is_object()) fail(key, "an object");
  return at(key);
}

bool JsonFields::boolean(std::string_view key) const {
  if (!at(key).is_boolean()) fail(key, "true or false");
  return at(key).get<bool>();
}

const std::string& JsonFields::digest(std::string_view key) const {
  constexpr std::size_t kDigits = 64;
  const std::string& value = text(key);
  if (value.size() != kDigits || value.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fail(key, "a SHA-256 in lower-case hexadecimal");
  }
  return value;
}

base::DType JsonFields::dtype(std::string_view key) const {
  using base::DType;
  const std::string& name = text(key);
  for (const DType dtype : {DType::u8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    if (name == base::safetensors_name(dtype)) return dtype;
  }
  fail(key, "one of U8, I32, I64, F16, BF16, F32, F64");
}

base::Json parse_json_file(std::string_view text, const std::string& origin, uint64_t max_bytes) {
  return parse_json_file(text, origin, JsonLimits{.max_bytes = max_bytes});
}

base::Json parse_json_file(std::string_view text, const std::string& origin, const JsonLimits& limits) {
  try {
    return base::parse_json(text, limits);
  } catch (const std::invalid_argument& error) {
    throw base::OutputError("{}: not valid JSON: {}", origin, error.what());
  }
}

int64_t to_integer(const base::Json& json, const std::string& place) {
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const bool fits = json.is_number_unsigned() ? json.get<uint64_t>() <= kLargest
                                              : json.is_number_integer() && json.get<int64_t>() >= 0;
  if (!fits) {
    throw base::OutputError("{} is {}, wanted a whole number from 0 to 2^63 - 1", place, base::excerpt(json));
  }
  return json.get<int64_t>();
}

std::vector<std::string> to_texts(const base::Json& json, const std::string& place) {
  const auto is_text = [](const base::Json& item) { return item.is_string(); };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_text)) {
    throw base::OutputError("{}: it holds {}; an array of texts is wanted", place, base::excerpt(json));
  }
  return json.get<std::vector<std::string>>();
}

}  // namespace ddpm::base
