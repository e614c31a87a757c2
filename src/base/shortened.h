// Texts of others: in messages they stay one line that can be read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddpm::base {

/// Bytes of a name or a path that a message shows.
inline constexpr std::size_t kLongestShownName = 200;

/// The text, or its first `longest` bytes and "..." where it has more. No character is cut.
std::string shortened(std::string text, std::size_t longest);

/// The text without the blanks around it, which are these characters.
std::string_view trimmed(std::string_view text, std::string_view blanks = " ");

}  // namespace ddpm::base
