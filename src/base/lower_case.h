// ASCII letters, whatever the locale.
#pragma once

#include <algorithm>
#include <string>

namespace ddpm::base {

/// The text with its capital letters of ASCII small.
inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  return text;
}

}  // namespace ddpm::base
