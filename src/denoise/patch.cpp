#include "denoise/patch.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"

namespace ddpm::denoise {
Patch Patch::of(const data::ImageFormat& image, const std::vector<int64_t>& sides, const nn::UNet2DConfig& model) {
  Patch patch{.whole = image, .window = image};
  if (sides.empty()) return patch;
  const std::vector<int64_t> whole = image.sides();
  const bool fits = sides.size() == whole.size() && std::ranges::equal(sides, whole, std::ranges::less_equal());
  if (!fits) {
    throw base::ConfigError("data.patch = [{}]: images are {}; wanted: {}, none greater than the image's",
                            fmt::join(sides, ", "), data::size_text(image), base::counted(whole.size(), "side"));
  }
  std::vector<int64_t> shape = sides;
  shape.push_back(image.channels);
  patch.window = data::ImageFormat::of(shape, image.dtype);
  std::vector<bool> wraps = periodic_axes(model, sides.size());
  for (std::size_t axis = 0; axis < sides.size(); ++axis) wraps[axis] = wraps[axis] && sides[axis] < whole[axis];
  if (std::ranges::count(wraps, true) > 0) patch.wraps = wraps;
  return patch;
}

std::vector<int64_t> Patch::places() const {
  std::vector<int64_t> places = whole.sides();
  for (std::size_t axis = 0; axis < places.size(); ++axis) {
    if (wraps.empty() || !wraps[axis]) places[axis] += 1 - window.sides()[axis];
  }
  return places;
}

std::vector<bool> periodic_axes(const nn::UNet2DConfig& model, std::size_t axes) {
  std::vector<bool> periodic;
  for (std::size_t axis = 0; axis < axes; ++axis) periodic.push_back(nn::is_periodic_along(model, axis));
  return periodic;
}

void pad_with_zeros(nn::UNet2DConfig& model, const std::vector<bool>& axes) {
  if (axes.empty()) return;
  if (model.padding.size() == 1) model.padding.resize(axes.size(), model.padding.front());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis]) model.padding.at(axis) = "zeros";
  }
}

}  // namespace ddpm::denoise
