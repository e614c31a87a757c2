// Characters that a user lists: "A-Za-z0-9" as in the brackets of a regular expression.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ddpm::generate {

/// The code points of the characters in `text`, which is UTF-8, sorted, each once. X-Y means all from X to Y; a hyphen
/// at either end of the text means itself. Throws base::ConfigError for an empty text, for bytes that are not UTF-8,
/// and for a range that runs backwards.
std::vector<uint32_t> code_points_of(std::string_view text);

}  // namespace ddpm::generate
