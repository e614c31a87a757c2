#include "denoise/overlapping_windows.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/pulse.h"

namespace ddpm::denoise {
namespace {

/// The sides of the model's windows, in the order of images.
std::vector<int64_t> window_of(const nn::UNet2DConfig& model) { return nn::image_size(model).sides(); }

bool wraps_along(const ImageRecord& image, std::size_t axis) { return !image.wraps.empty() && image.wraps[axis]; }

/// A periodic model continues each of its windows with the other side of that window.
void expect_not_periodic(const nn::UNet2DConfig& model, std::size_t axis, int64_t window, const std::string& option) {
  if (!nn::is_periodic_along(model, axis)) return;
  const std::array<const char*, 3> names = {"depth", "height", "width"};
  throw base::ConfigError("{}: the model is periodic along its {}; wanted: {} there, as in training", option,
                          names.at(axis + names.size() - static_cast<std::size_t>(model.dimensions)), window);
}

/// The place of each window's pixels along an axis: int64 [windows, window].
at::Tensor places(const std::vector<int64_t>& starts, int64_t window, int64_t side) {
  return (at::tensor(starts, at::kLong).unsqueeze(1) + at::arange(window, at::kLong)).remainder(side);
}

}  // namespace

std::vector<int64_t> window_starts(int64_t side, int64_t window, int64_t overlap, bool wraps) {
  const int64_t stride = window - overlap;
  const int64_t way = wraps ? side : side - window;  // how far the first pixel of a window can move
  const int64_t strides = (way + stride - 1) / stride;
  const int64_t count = wraps ? strides : strides + 1;
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count; ++i) starts.push_back(strides == 0 ? 0 : i * way / strides);
  return starts;
}

int64_t set_image_size(LoadedModel& model, const std::vector<int64_t>& sides, std::optional<int64_t> overlap) {
  const nn::UNet2DConfig& config = model.unet->config();
  const std::vector<int64_t> window = window_of(config);
  const std::string size = fmt::format("{}", fmt::join(sides, "x"));
  if (sides.size() != window.size() || !std::ranges::equal(window, sides, std::ranges::less_equal())) {
    throw base::ConfigError("--size {}: the model draws windows of {}; wanted: {} sides, none below the window's", size,
                            fmt::join(window, "x"), window.size());
  }
  std::vector<int64_t> shared;  // sides of windows that have neighbours
  for (std::size_t axis = 0; axis < sides.size(); ++axis) {
    if (sides[axis] == window[axis] && !wraps_along(model.image, axis)) continue;
    const std::string option = fmt::format("--size {}", size);
    expect_not_periodic(config, axis, window[axis], option);
    if (model.mean) expect_not_periodic(model.mean->unet->config(), axis, window[axis], option);
    shared.push_back(window[axis]);
  }
  const int64_t least = std::ranges::min(shared.empty() ? window : shared);
  if (overlap && *overlap >= least) {
    throw base::ConfigError("--overlap {}: windows are {}; wanted: 0 to {}", *overlap, fmt::join(window, "x"),
                            least - 1);
  }
  model.image.depth = sides.size() == 3 ? sides.front() : 0;
  model.image.height = sides.rbegin()[1];
  model.image.width = sides.back();
  return overlap.value_or(least / 4);
}

void expect_cut_by_windows(const LoadedModel& model, const nn::UNet2DConfig& other, const std::string& option) {
  const std::vector<int64_t> window = window_of(model.unet->config());
  const std::vector<int64_t> sides = model.image.sides();
  for (std::size_t axis = 0; axis < sides.size(); ++axis) {
    if (sides[axis] == window[axis] && !wraps_along(model.image, axis)) continue;
    expect_not_periodic(other, axis, window[axis], fmt::format("{}: --size {}", option, fmt::join(sides, "x")));
  }
}

OverlappingWindows::OverlappingWindows(const LoadedModel& model, int64_t overlap, at::Device device) {
  const std::vector<int64_t> window = window_of(model.unet->config());
  const std::vector<int64_t> sides = model.image.sides();
  at::Tensor pixels = at::zeros({1, 1}, at::kLong);
  for (std::size_t axis = 0; axis < sides.size(); ++axis) {
    const bool wraps = wraps_along(model.image, axis);
    const at::Tensor along =
        places(window_starts(sides[axis], window[axis], overlap, wraps), window[axis], sides[axis]);
    pixels =
        (pixels.unsqueeze(1).unsqueeze(3) * sides[axis] + along.unsqueeze(0).unsqueeze(2)).flatten(2).flatten(0, 1);
  }
  const data::ImageFormat image = model.image.format(1, base::DType::f32);
  const at::Tensor covers = at::zeros({image.pixels(), 1});
  covers.index_add_(0, pixels.flatten(), at::ones({pixels.numel(), 1}));
  pixels_ = pixels.to(device);
  covers_ = covers.to(device);
  rows_ = image.rows();
  window_rows_ = pixels.size(1) / window.back();
}

at::Tensor OverlappingWindows::cut(const at::Tensor& values, layout::Range windows) const {
  if (!values.defined()) return values;
  const int64_t channels = values.size(1);
  const at::Tensor pixels = pixels_.narrow(0, windows.begin, windows.size());
  return values.permute({0, 2, 3, 1})
      .reshape({values.size(0), -1, channels})
      .index_select(1, pixels.flatten())
      .view({values.size(0) * windows.size(), window_rows_, -1, channels})
      .permute({0, 3, 1, 2});
}

Given OverlappingWindows::cut(const Given& given, layout::Range windows) const {
  const auto each = [&](const at::Tensor& of_images) {
    return of_images.defined() ? of_images.repeat_interleave(windows.size(), 0) : of_images;
  };
  const nn::Conditions& all = given.conditions;
  return {.beside = cut(given.beside, windows),
          .conditions = {each(all.class_labels), each(all.parameters), each(all.parameters_kept)}};
}

at::Tensor OverlappingWindows::mean(int64_t n, int64_t at_once, const Answer& answer) const {
  at::Tensor sum;  // [n, H · W, C]
  for (int64_t first = 0; first < count(); first += at_once) {
    const layout::Range windows{first, std::min(count(), first + at_once)};
    const at::Tensor answers = answer(windows);
    base::pulse();
    const int64_t channels = answers.size(1);
    if (!sum.defined()) sum = at::zeros({n, covers_.size(0), channels}, answers.options());
    const at::Tensor values = answers.permute({0, 2, 3, 1}).reshape({n, windows.size(), pixels_.size(1), channels});
    // One window after another, since no pixel is in one twice: sums then have one order on GPUs, too.
    for (int64_t i = 0; i < windows.size(); ++i) sum.index_add_(1, pixels_[first + i], values.select(1, i));
  }
  return sum.div_(covers_).view({n, rows_, -1, sum.size(2)}).permute({0, 3, 1, 2});
}

}  // namespace ddpm::denoise
