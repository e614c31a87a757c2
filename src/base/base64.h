// Bytes as text: base64 of RFC 4648, with padding.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddpm::base {

/// At most 2^30 bytes.
std::string to_base64(std::span<const std::byte> bytes);

/// The bytes of which to_base64() makes exactly this text; nothing where there are none.
std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace ddpm::base
