// Enumerations whose values have names in configurations, in files and on the command line.
//
// Such an enumeration lists the names of its values, which count from 0 without a gap, in a function beside it:
//
//   enum class Shuffle : uint8_t { block, full, none };
//   constexpr auto names_of(Shuffle /*type*/) { return std::to_array<std::string_view>({"block", "full", "none"}); }
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ddpm::base {

template <typename E>
concept Named = std::is_enum_v<E> && requires(E value) {
  names_of(value).size();
};

template <Named E>
constexpr std::string_view name_of(E value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

/// The value that is called `name`, or nothing.
template <Named E>
constexpr std::optional<E> find_named(std::string_view name) {
  const auto names = names_of(E{});
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<E>(found - names.begin()));
}

/// The names of all values, in their order.
template <Named E>
std::vector<std::string> all_names() {
  const auto names = names_of(E{});
  return {names.begin(), names.end()};
}

}  // namespace ddpm::base
