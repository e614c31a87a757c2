#include "base/counted.h"

namespace ddpm::base {

std::string plural(bool one, std::string_view noun) {
  if (one) return std::string(noun);
  const bool hisses = noun.ends_with("s") || noun.ends_with("x") || noun.ends_with("ch") || noun.ends_with("sh");
  return std::string(noun) + (hisses ? "es" : "s");
}

}  // namespace ddpm::base
