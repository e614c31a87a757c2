// From an image of any size to the one size that a dataset stores.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/prepare/image.h"

namespace ddpm::data::prepare {

enum class Crop : uint8_t {
  center,  ///< the middle; of an odd rest the smaller half is cut at the left or top
  random,  ///< anywhere, as a pure function of seed and image index
  none,    ///< nothing is cut: the image is squashed to the size
};
constexpr auto names_of(Crop /*type*/) { return std::to_array<std::string_view>({"center", "random", "none"}); }

/// In pixels.
struct Sides {
  int height = 64;
  int width = 64;
  friend bool operator==(const Sides&, const Sides&) = default;
};

struct FitOptions {
  Sides sides;
  Crop crop = Crop::center;
  uint64_t seed = 0;
};

/// The image is scaled until it just covers the sides, then cropped: one side becomes the wanted one, and the other is
/// scaled alike and rounded down, to no less than wanted. For a square it is the shorter side that becomes the
/// square's. An image that has the right size is not resampled. `index` is the image's place in the sorted source, for
/// the random crop.
template <typename T>
BasicImage<T> fit(const BasicImage<T>& image, const FitOptions& options, uint64_t index);

}  // namespace ddpm::data::prepare
