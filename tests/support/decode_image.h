// Pictures of 8 bits, for tests of their formats.
#pragma once

#include <span>
#include <variant>

#include "data/prepare/decode.h"

namespace ddpm::test {

/// The picture of a file that holds no floats, upright, with 1 or 3 channels.
inline data::prepare::Image decode_image(std::span<const std::byte> bytes, int channels,
                                         const data::prepare::DecodeLimits& limits = {}) {
  return std::get<data::prepare::Image>(data::prepare::decode_picture(bytes, base::DType::u8, channels, limits));
}

}  // namespace ddpm::test
