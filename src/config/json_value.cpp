#include "config/json_value.h"

#include <type_traits>
#include <utility>

#include "base/error.h"

namespace ddpm::config {

Value from_json(const base::Json& json) {
  if (json.is_boolean()) return {json.get<bool>()};
  const bool fits = !json.is_number_unsigned() || std::in_range<int64_t>(json.get<uint64_t>());
  if (json.is_number_integer() && fits) return {json.get<int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_object()) return {Table{}};
  if (!json.is_array()) return {};
  Array array;
  for (const base::Json& element : json) array.push_back(from_json(element));
  return {std::move(array)};
}

Value from_json(const base::Json& json, const Entry& entry) {
  const bool is_switch =
      std::holds_alternative<bool*>(entry.target) || std::holds_alternative<std::optional<bool>*>(entry.target);
  return json.is_null() && is_switch ? Value{false} : from_json(json);
}

base::OrderedJson to_json(const Value& value) {
  return std::visit(
      [](const auto& held) -> base::OrderedJson {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, Table>) {
          throw base::InternalError("a table has no JSON form here");
        } else if constexpr (std::is_same_v<Held, Array>) {
          base::OrderedJson array = base::OrderedJson::array();
          for (const Value& element : held) array.push_back(to_json(element));
          return array;
        } else {
          return held;
        }
      },
      value.data);
}

}  // namespace ddpm::config
