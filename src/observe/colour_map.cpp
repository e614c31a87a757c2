#include "observe/colour_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ddpm::observe {
namespace {

constexpr std::array<std::array<uint8_t, 3>, 10> kColours = {{{0x44, 0x01, 0x54},
                                                              {0x48, 0x28, 0x78},
                                                              {0x3E, 0x4A, 0x89},
                                                              {0x31, 0x68, 0x8E},
                                                              {0x26, 0x82, 0x8E},
                                                              {0x1F, 0x9E, 0x89},
                                                              {0x35, 0xB7, 0x79},
                                                              {0x6D, 0xCD, 0x59},
                                                              {0xB4, 0xDE, 0x2C},
                                                              {0xFD, 0xE7, 0x25}}};

}  // namespace

std::array<uint8_t, 3> viridis(float value) {
  if (std::isnan(value)) return {0, 0, 0};
  const float place = std::clamp(value, 0.0F, 1.0F) * static_cast<float>(kColours.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), kColours.size() - 2);
  const float share = place - static_cast<float>(below);
  std::array<uint8_t, 3> colour{};
  for (std::size_t i = 0; i < colour.size(); ++i) {
    const auto low = static_cast<float>(kColours[below][i]);
    const auto high = static_cast<float>(kColours[below + 1][i]);
    colour[i] = static_cast<uint8_t>(std::lrint(low + share * (high - low)));
  }
  return colour;
}

}  // namespace ddpm::observe
