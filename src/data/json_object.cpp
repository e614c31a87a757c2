#include "data/json_object.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace ddpm::data {

using base::DatasetError;
using base::Json;

namespace {

constexpr std::size_t kDigestLength = 64;

}  // namespace

JsonObject::JsonObject(const Json& json, std::string where, const std::vector<std::string_view>& keys)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) throw DatasetError("{}: an object is wanted", where_);
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(keys, key) == keys.end()) throw DatasetError("{}: unknown key \"{}\"", where_, key);
  }
  for (const std::string_view key : keys) {
    if (!json.contains(key)) throw DatasetError("{}: key \"{}\" is missing", where_, key);
  }
}

bool JsonObject::contains(const char* key) const { return json_.contains(key); }

int64_t JsonObject::integer(const char* key, int64_t min, int64_t max) const {
  const Json& value = json_.at(key);
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > kMost) ||
      value.get<int64_t>() < min || value.get<int64_t>() > max) {
    throw DatasetError("{}: \"{}\" is {}, an integer from {} to {} is wanted", where_, key, base::excerpt(value), min,
                       max);
  }
  return value.get<int64_t>();
}

double JsonObject::number(const char* key) const {
  const Json& value = json_.at(key);
  if (!value.is_number()) throw DatasetError("{}: \"{}\" is {}, a number is wanted", where_, key, base::excerpt(value));
  return value.get<double>();
}

bool JsonObject::boolean(const char* key) const {
  const Json& value = json_.at(key);
  if (value.is_boolean()) return value.get<bool>();
  throw DatasetError("{}: \"{}\" is {}, true or false is wanted", where_, key, base::excerpt(value));
}

std::string JsonObject::text(const Json& value, const char* key) const {
  if (value.is_string()) return value.get<std::string>();
  throw DatasetError("{}: \"{}\" holds {}, a string is wanted", where_, key, base::excerpt(value));
}

std::string JsonObject::digest(const char* key) const {
  std::string value = text(key);
  if (value.size() != kDigestLength || value.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw DatasetError("{}: \"{}\" is not a SHA-256 in lower-case hexadecimal", where_, key);
  }
  return value;
}

const Json& JsonObject::array(const char* key) const {
  const Json& value = json_.at(key);
  if (!value.is_array()) throw DatasetError("{}: \"{}\" is not an array", where_, key);
  return value;
}

}  // namespace ddpm::data
