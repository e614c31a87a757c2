#include "base/counted.h"

#include <fmt/format.h>

namespace ddpm::base {

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const int64_t first_digit = number < 0 ? 1 : 0;
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > first_digit; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

std::string counted(int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

}  // namespace ddpm::base
