// Names and units as dataset.json holds them.
#pragma once

#include <string>
#include <string_view>

namespace ddpm::data {

/// Whether a name or unit can be written down: UTF-8 without control characters, of at most kMaxNameBytes.
bool is_plain(std::string_view text);

/// The unit that a file of others gives, made such a text: bytes that are not UTF-8 are taken for Latin-1 (0xB0 for a
/// degree sign), control characters for spaces, spaces around it go, and what is too long is cut behind a character.
std::string plain_unit(std::string_view unit);

}  // namespace ddpm::data
