// What the targets of the image formats do: decode within small limits, then check what came out.
#pragma once

#include <span>

#include "base/error.h"
#include "data/prepare/decode.h"
#include "fuzz/fuzz.h"
#include "support/decode_image.h"

namespace ddpm::fuzz {

inline void decode(std::span<const uint8_t> bytes) {
  constexpr data::prepare::DecodeLimits kLimits{.max_side = 512, .max_pixels = 1 << 14, .max_jpeg_scans = 20};
  for (const int channels : {1, 3}) {
    try {
      const auto image = test::decode_image(std::as_bytes(bytes), channels, kLimits);
      require(image.channels == channels, "the image has the wanted channels");
      require(int64_t{image.width} * image.height <= kLimits.max_pixels, "the size is limited");
      require(image.pixels.size() ==
                  static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * static_cast<size_t>(channels),
              "the image has the pixels of its size");
    } catch (const base::DatasetError&) {
    }
  }
}

}  // namespace ddpm::fuzz
