// Converts a parsed value to the C++ type of a key, with every check that the key declares.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>

#include "base/error.h"
#include "config/resolve.h"
#include "config/value.h"

namespace ddpm::config {
namespace {

template <typename T>
constexpr const char* kWanted = nullptr;
template <>
constexpr const char* kWanted<bool> = "true or false";
template <>
constexpr const char* kWanted<int64_t> = "an integer";
template <>
constexpr const char* kWanted<double> = "a number";
template <>
constexpr const char* kWanted<std::string> = "a string";

std::string wanted_range(const KeyOptions& options) {
  const std::string low =
      std::isinf(options.min) ? "" : fmt::format("{} {}", options.above_min ? "above" : "at least", options.min);
  const std::string high =
      std::isinf(options.max) ? "" : fmt::format("{} {}", options.below_max ? "below" : "at most", options.max);
  return fmt::format("a number {}{}{}", low, low.empty() || high.empty() ? "" : " and ", high);
}

// Converts values of one key; `origin` and the key are for its errors.
class Converter {
 public:
  Converter(const Entry& entry, std::string_view origin) : entry_(entry), origin_(origin) {}

  template <typename T>
  T convert(const Value& value) const {
    return to(value, std::type_identity<T>{});
  }

  template <typename T>
  void store(const Value& value, T* target) const {
    *target = convert<T>(value);
  }
  void store(const Value& value, const EnumTarget& target) const { target.set(target.value, choice(value, target)); }

  /// Returns what the target would hold.
  template <typename T>
  Value held(const Value& value, T* /*target*/) const {
    T converted = convert<T>(value);
    Entry scratch = entry_;
    scratch.target = &converted;
    return current(scratch);
  }
  Value held(const Value& value, const EnumTarget& target) const {
    const std::optional<std::size_t> chosen = choice(value, target);
    return chosen ? Value{entry_.options.choices.at(*chosen)} : Value{};
  }

 private:
  [[noreturn]] void refuse(const Value& seen, std::string_view wanted) const {
    // What no key can be comes from JSON alone, which calls it null.
    const bool null = std::holds_alternative<std::nullptr_t>(seen.data);
    throw base::ConfigError("{} = {}{}; wanted: {}", entry_.path(), null ? "null" : to_short_text(seen),
                            place(origin_, seen.line), wanted);
  }

  template <typename T>
  const T& get(const Value& value) const {
    if (const T* held = std::get_if<T>(&value.data)) return *held;
    refuse(value, kWanted<T>);
  }

  bool to(const Value& value, std::type_identity<bool>) const { return get<bool>(value); }

  int64_t to(const Value& value, std::type_identity<int64_t>) const {
    const int64_t number = get<int64_t>(value);
    require_range(value, static_cast<double>(number));
    return number;
  }

  double to(const Value& value, std::type_identity<double>) const {
    const int64_t* integer = std::get_if<int64_t>(&value.data);
    const double number = integer != nullptr ? static_cast<double>(*integer) : get<double>(value);
    require_range(value, number);
    require_float32(value, number);
    return number;
  }

  std::string to(const Value& value, std::type_identity<std::string>) const {
    const auto& text = get<std::string>(value);
    const auto& choices = entry_.options.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
      refuse(value, fmt::format("one of {}", choices_text(choices)));
    }
    require_utf8(value, text);
    return text;
  }

  /// Returns the place of `value` among the names of the choices.
  std::optional<std::size_t> choice(const Value& value, const EnumTarget& target) const {
    if (target.optional && std::holds_alternative<std::nullptr_t>(value.data)) return std::nullopt;
    const auto& choices = entry_.options.choices;
    return std::find(choices.begin(), choices.end(), convert<std::string>(value)) - choices.begin();
  }

  template <typename T>
  std::optional<T> to(const Value& value, std::type_identity<std::optional<T>>) const {
    if (std::holds_alternative<std::nullptr_t>(value.data)) return std::nullopt;
    return convert<T>(value);
  }

  template <typename T>
  std::vector<T> to(const Value& value, std::type_identity<std::vector<T>>) const {
    std::vector<T> list;
    if (const auto* array = std::get_if<Array>(&value.data)) {
      for (const Value& item : *array) list.push_back(convert<T>(item));
    } else if (!std::holds_alternative<std::nullptr_t>(value.data)) {
      list.push_back(convert<T>(value));
    }
    return list;
  }

  WeightedPath to(const Value& value, std::type_identity<WeightedPath>) const {
    constexpr std::string_view kForms = "a path, a list of paths, or a list of { path = \"...\", weight = 1.0 }";
    if (const auto* path = std::get_if<std::string>(&value.data)) {
      require_utf8(value, *path);
      return {*path, 1.0};
    }
    const auto* table = std::get_if<Table>(&value.data);
    if (table == nullptr) refuse(value, kForms);
    WeightedPath result;
    bool has_path = false;
    for (const auto& [key, field] : *table) {
      if (key == "path") {
        if (!std::holds_alternative<std::string>(field.data)) refuse(value, kForms);
        result.path = std::get<std::string>(field.data);
        require_utf8(value, result.path);
        has_path = true;
      } else if (key == "weight") {
        result.weight = weight_of(value, field);
      } else {
        throw base::ConfigError("unknown key {} of {}{}; known: path, weight", key, entry_.path(),
                                place(origin_, field.line));
      }
    }
    if (!has_path) refuse(value, kForms);
    return result;
  }

  double weight_of(const Value& item, const Value& field) const {
    const auto* integer = std::get_if<int64_t>(&field.data);
    const auto* number = std::get_if<double>(&field.data);
    const double weight = integer != nullptr ? static_cast<double>(*integer) : number != nullptr ? *number : 0.0;
    if (!(weight > 0.0) || std::isinf(weight)) refuse(item, "a finite weight above 0");
    require_float32(item, weight);
    return weight;
  }

  void require_range(const Value& seen, double number) const {
    const KeyOptions& o = entry_.options;
    const bool above = o.above_min ? number > o.min : number >= o.min;
    const bool below = o.below_max ? number < o.max : number <= o.max;
    if (!std::isfinite(number)) refuse(seen, "a finite number");
    if (!above || !below) refuse(seen, wanted_range(o));
  }

  void require_float32(const Value& seen, double number) const {
    const KeyOptions& o = entry_.options;
    const double largest = std::numeric_limits<float>::max();
    if (std::abs(number) > largest) refuse(seen, fmt::format("a number of float32, at most {:.6g} in size", largest));
    const double rounded = static_cast<float>(number);
    if (number != 0.0 && rounded == 0.0) {
      refuse(seen, fmt::format("0, or a number of float32, at least {:.6g} in size",
                               std::numeric_limits<float>::denorm_min()));
    }
    if ((o.above_min && rounded <= o.min) || (o.below_max && rounded >= o.max)) {
      refuse(seen, wanted_range(o) + " also when float32 has rounded it");
    }
  }

  void require_utf8(const Value& seen, const std::string& text) const {
    try {
      static_cast<void>(quoted(text));
    } catch (const std::invalid_argument&) {
      refuse(seen, "text in UTF-8");
    }
  }

  const Entry& entry_;
  std::string_view origin_;
};

}  // namespace

void assign(const Entry& entry, const Value& value, const std::string& origin) {
  const Converter converter(entry, origin);
  std::visit([&](const auto& target) { converter.store(value, target); }, entry.target);
}

void check_values(const Schema& schema) {
  for (const Entry& entry : schema.entries()) static_cast<void>(canonical(entry, current(entry), ""));
}

Value canonical(const Entry& entry, const Value& value, std::string_view origin) {
  const Converter converter(entry, origin);
  return std::visit([&](const auto& target) { return converter.held(value, target); }, entry.target);
}

}  // namespace ddpm::config
