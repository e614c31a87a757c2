// Characters of texts that others have written.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddpm::base {

/// Bytes of the UTF-8 character (RFC 3629) that the text begins with; 0 where it begins with none, or is empty.
std::size_t utf8_size(std::string_view text);

/// Throws ConfigError unless all of the text is UTF-8: what a checkpoint remembers is JSON. `what` says what it is:
/// "the set that data.train names".
void expect_utf8(std::string_view text, std::string_view what);

/// Whether the text begins with a control character: below a space, DEL, or of the second half of Latin-1.
bool begins_with_control(std::string_view text);

}  // namespace ddpm::base
