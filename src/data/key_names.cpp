#include "data/key_names.h"

#include <algorithm>

#include <fmt/format.h>

namespace ddpm::data {

std::string key_text(KeyNames names, std::string_view key) {
  if (names == KeyNames::configuration) return fmt::format("data.{}", key);
  std::string option(key);
  std::ranges::replace(option, '_', '-');
  return "--" + option;
}

std::string key_text(KeyNames names, std::string_view key, int64_t value) {
  return fmt::format("{}{}{}", key_text(names, key), names == KeyNames::configuration ? " = " : " ", value);
}

std::string key_text(KeyNames names, std::string_view key, std::string_view value) {
  return names == KeyNames::configuration ? fmt::format("{} = \"{}\"", key_text(names, key), value)
                                          : fmt::format("{} {}", key_text(names, key), value);
}

}  // namespace ddpm::data
