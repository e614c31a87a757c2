// Arithmetic of 8-bit values that several formats need: transparency over white, and ink.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/prepare/image.h"

namespace ddpm::data::prepare {

/// a b / 255, rounded.
inline uint8_t product(unsigned a, unsigned b) {
  const unsigned sum = a * b + 128U;
  return static_cast<uint8_t>((sum + (sum >> 8U)) >> 8U);
}

/// c a + 255 (255 - a), divided by 255 and rounded.
inline uint8_t over_white(unsigned value, unsigned alpha) {
  const unsigned sum = value * alpha + 255U * (255U - alpha) + 128U;
  return static_cast<uint8_t>((sum + (sum >> 8U)) >> 8U);
}

/// Makes an image of Colours + 1 channels, the last of which is opacity, one of Colours channels, in place.
template <int Colours>
void lay_over_white(Image& image) {
  const std::size_t pixels = image.pixels.size() / (Colours + 1);
  const uint8_t* in = image.pixels.data();
  uint8_t* out = image.pixels.data();
  for (std::size_t i = 0; i < pixels; ++i, in += Colours + 1, out += Colours) {
    const unsigned alpha = in[Colours];
    for (int c = 0; c < Colours; ++c) out[c] = over_white(in[c], alpha);
  }
  image.pixels.resize(pixels * Colours);
  image.channels = Colours;
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
