// Arithmetic of levels that several formats need: transparency over white, and ink.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "data/prepare/image.h"

namespace ddpm::data::prepare {

/// a b / 255, rounded.
inline uint8_t product(unsigned a, unsigned b) {
  const unsigned sum = a * b + 128U;
  return static_cast<uint8_t>((sum + (sum >> 8U)) >> 8U);
}

/// An image of which the last of two or four channels is opacity, laid over white: c a + top (top - a), divided by top,
/// or c + top - a where the colours were multiplied by their opacity before; in 8 bits, rounded once.
template <typename T>
Image laid_over_white(const BasicImage<T>& image, bool premultiplied = false) {
  constexpr uint64_t kTop = std::numeric_limits<T>::max();
  constexpr uint64_t kLevel = kTop / std::numeric_limits<uint8_t>::max();
  Image over(image.width, image.height, image.channels - 1);
  const auto colours = static_cast<std::size_t>(over.channels);
  const T* in = image.pixels.data();
  for (std::size_t i = 0; i < over.pixels.size(); i += colours, in += colours + 1) {
    const uint64_t alpha = in[colours];
    for (std::size_t c = 0; c < colours; ++c) {
      const uint64_t own = premultiplied ? std::min(in[c] * kTop, kTop * alpha) : in[c] * alpha;
      const uint64_t sum = own + kTop * (kTop - alpha);
      over.pixels[i + c] = static_cast<uint8_t>((sum + kTop * kLevel / 2) / (kTop * kLevel));
    }
  }
  return over;
}

/// Makes an image of four channels one of RGB, in place. What is stored is the light that each ink lets through:
/// R = C K, without a profile.
inline void inks_to_rgb(Image& image) {
  const std::size_t pixels = image.pixels.size() / 4;
  const uint8_t* in = image.pixels.data();
  uint8_t* out = image.pixels.data();
  for (std::size_t i = 0; i < pixels; ++i, in += 4, out += 3) {
    const unsigned key = in[3];
    for (int c = 0; c < 3; ++c) out[c] = product(in[c], key);
  }
  image.pixels.resize(pixels * 3);
  image.channels = 3;
}

}  // namespace ddpm::data::prepare
