#include "base/counted.h"

namespace ddpm::base {

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const int64_t first_digit = number < 0 ? 1 : 0;
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > first_digit; at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

std::string plural(bool one, std::string_view noun) {
  if (one) return std::string(noun);
  const bool hisses = noun.ends_with("s") || noun.ends_with("x") || noun.ends_with("ch") || noun.ends_with("sh");
  return std::string(noun) + (hisses ? "es" : "s");
}

}  // namespace ddpm::base
