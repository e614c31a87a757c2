// Numbers of things in messages.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace ddpm::base {

/// 1234567 as "1,234,567".
std::string grouped(int64_t number);

/// The word for `one` or more of what `noun`, a singular, names: "rank" or "ranks", "class" or "classes".
std::string plural(bool one, std::string_view noun);

/// "1 rank", "0 ranks", "2 classes", "1,200 images".
template <std::integral T>
std::string counted(T number, std::string_view noun) {
  return fmt::format("{} {}", grouped(static_cast<int64_t>(number)), plural(number == 1, noun));
}

/// "steps 3 to 60", "step 60", or "no step" where `last` lies before `first`.
template <std::integral T>
std::string inclusive_range(T first, T last, std::string_view noun) {
  if (last < first) return fmt::format("no {}", noun);
  if (last == first) return fmt::format("{} {}", noun, first);
  return fmt::format("{} {} to {}", plural(/*one=*/false, noun), first, last);
}

}  // namespace ddpm::base
