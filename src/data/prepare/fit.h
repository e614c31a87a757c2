// From an image of any size to the square that a dataset stores.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/prepare/image.h"

namespace ddpm::data::prepare {

enum class Crop : uint8_t {
  center,  ///< the middle; of an odd rest the smaller half is cut at the left or top
  random,  ///< anywhere, as a pure function of seed and image index
  none,    ///< nothing is cut: the image is squashed to a square
};
constexpr auto names_of(Crop /*type*/) { return std::to_array<std::string_view>({"center", "random", "none"}); }

struct FitOptions {
  int size = 64;  ///< side of the square
  Crop crop = Crop::center;
  uint64_t seed = 0;
};

/// The shorter side becomes `size` (the longer one size * long / short, rounded down), then the crop. An image that has
/// the right size is not resampled. `index` is the image's place in the sorted source, for the random crop.
Image fit(const Image& image, const FitOptions& options, uint64_t index);

}  // namespace ddpm::data::prepare
