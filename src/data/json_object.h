// Inside src/data: strict reading of the JSON objects of dataset.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "base/named.h"

namespace ddpm::data {

/// Typed access to one JSON object whose keys are all known. Each function throws DatasetError, which names file and
/// key, the value seen and the one wanted.
class JsonObject {
 public:
  /// `json`, which outlives this, has all of `keys` and no others. `where` names it in messages.
  JsonObject(const base::Json& json, std::string where, const std::vector<std::string_view>& keys);

  [[nodiscard]] bool contains(const char* key) const;
  [[nodiscard]] int64_t integer(const char* key, int64_t min, int64_t max) const;
  [[nodiscard]] double number(const char* key) const;
  [[nodiscard]] bool boolean(const char* key) const;
  [[nodiscard]] std::string text(const char* key) const { return text(json_.at(key), key); }
  /// The text of an item of the array `key`.
  [[nodiscard]] std::string text(const base::Json& value, const char* key) const;
  /// A SHA-256 in lower-case hexadecimal.
  [[nodiscard]] std::string digest(const char* key) const;
  [[nodiscard]] const base::Json& array(const char* key) const;
  [[nodiscard]] const base::Json& at(const char* key) const { return json_.at(key); }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const base::Json& json_;
  std::string where_;
};

/// The value of E that the text of `key` names. Throws DatasetError for another text.
template <base::Named E>
E parse_named(const JsonObject& object, const char* key) {
  const std::string text = object.text(key);
  if (const auto value = base::find_named<E>(text)) return *value;
  throw base::DatasetError("{}: \"{}\" is \"{}\", this program reads {}", object.where(), key, text,
                           fmt::join(names_of(E{}), ", "));
}

}  // namespace ddpm::data
