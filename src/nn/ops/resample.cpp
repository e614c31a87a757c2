#include "nn/ops/resample.h"

#include <array>
#include <utility>
#include <vector>

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/reflection_pad2d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest3d.h>

#include "nn/ops/as_on_cuda.h"
#include "nn/ops/meta.h"
#include "nn/ops/repeated_pixels.h"
#include "nn/ops/volume.h"

namespace ddpm::nn {
namespace {

constexpr int64_t kTaps = 4;

/// What avg_pool3d computes, whose gradient on GPUs has no fixed order.
at::Tensor means_of_eight(const at::Tensor& volume) {
  at::Tensor pairs = volume;
  for (const int64_t dim : {4, 3, 2}) {
    const int64_t half = volume.size(dim) / 2;
    pairs = pairs.narrow(dim, 0, 2 * half).unflatten(dim, {half, 2});
  }
  return pairs.mean(at::IntArrayRef{3, 5, 7});
}

at::Tensor box_of_volume(const at::Tensor& x, Resampling resampling, int64_t depth) {
  const at::Tensor volume = volume_of(x, depth);
  if (resampling == Resampling::down) {
    return image_of_volume(computes_as_on_cuda(x) ? means_of_eight(volume) : at::avg_pool3d(volume, 2, 2));
  }
  return image_of_volume(at::upsample_nearest3d(volume, {2 * depth, 2 * volume.size(3), 2 * volume.size(4)}));
}

at::Tensor box(const at::Tensor& x, Resampling resampling, const Partition& partition) {
  if (const int64_t depth = partition.depth(x); depth > 0) return box_of_volume(x, resampling, depth);
  if (resampling == Resampling::down) return at::avg_pool2d(x, 2, 2);
  if (computes_as_on_cuda(x)) return repeated_pixels(x);
  return at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
}

/// (1, 3, 3, 1) in both directions for each channel, [C, 1, 4, 4]. Along a line the taps add up to `gain`. It is made
/// on the device of x, whose work may be captured.
at::Tensor filter_of(const at::Tensor& x, double gain) {
  const at::TensorOptions options = x.options().memory_format(std::nullopt);
  const at::Tensor outer = at::full({1}, gain / 8.0, options);
  const at::Tensor line = at::cat({outer, 3.0 * outer, 3.0 * outer, outer});
  return (line.unsqueeze(1) * line.unsqueeze(0)).expand({x.size(1), 1, kTaps, kTaps});
}

/// x with one more pixel on both sides of an axis, as in a mirror that stands on the image's outermost pixels.
Halo mirrored(const at::Tensor& x, ImageAxis axis, const Partition& partition) {
  Halo halo = partition.halo(x, axis, 1, 1);
  const auto dim = static_cast<int64_t>(axis);
  const int64_t extent = x.size(dim);
  if (!halo.attached && computes_as_on_cuda(x)) {  // the gradient of reflection_pad2d has no fixed order there
    return {at::cat({x.narrow(dim, 1, 1), x, x.narrow(dim, extent - 2, 1)}, dim), true};
  }
  if (!halo.attached) return halo;
  const TilePlace place = partition.place(axis, extent);
  // They are the halo's, which holds the neighbour's pixels even where the tile is one pixel wide.
  const at::Tensor before = halo.x.narrow(dim, place.first == 0 ? 2 : 0, 1);
  const at::Tensor after = halo.x.narrow(dim, place.first + extent == place.total ? extent - 1 : extent + 1, 1);
  return {at::cat({before, x, after}, dim), true};
}

at::Tensor mirrored(const at::Tensor& x, const Partition& partition) {
  const Halo rows = mirrored(x, ImageAxis::height, partition);
  const Halo columns = mirrored(rows.x, ImageAxis::width, partition);
  const int64_t beside = columns.attached ? 0 : 1;
  const int64_t above = rows.attached ? 0 : 1;
  return beside + above == 0 ? columns.x : at::reflection_pad2d(columns.x, {beside, beside, above, above});
}

/// Images, and whether there is one more pixel on each side of them, above and below or left and right.
struct Surrounded {
  at::Tensor x;
  bool rows;
  bool columns;
};

Surrounded with_halo(const at::Tensor& x, const Partition& partition) {
  constexpr std::array kAxes = {ImageAxis::height, ImageAxis::width};
  const Halos wide = partition.halos(x, kAxes, 1, 1);
  return {wide.x, wide.attached[0], wide.attached[1]};
}

/// What autograd keeps of filtered(): the image, once more with its mirrored border where it has one, and the filter.
at::Tensor filtered_on_meta(const at::Tensor& x, Resampling resampling, bool reflects) {
  const ImageSize size = ImageSize{x.size(2), x.size(3)}.resampled(resampling);
  const at::TensorOptions options = x.options().memory_format(x.suggest_memory_format());
  std::vector<at::Tensor> saved = {x, filter_of(x, 1.0)};
  if (reflects) saved.push_back(at::empty({x.size(0), x.size(1), x.size(2) + 2, x.size(3) + 2}, options));
  return run_on_meta({.inputs = {x},
                      .result_sizes = {x.size(0), x.size(1), size.height, size.width},
                      .result_options = options,
                      .saved = std::move(saved)});
}

at::Tensor filtered(const at::Tensor& x, Resampling resampling, bool reflects, const Partition& partition) {
  if (x.is_meta()) return filtered_on_meta(x, resampling, reflects);
  const Surrounded surrounded = reflects ? Surrounded{mirrored(x, partition), true, true} : with_halo(x, partition);
  const int64_t channels = x.size(1);
  if (resampling == Resampling::down) {
    const std::vector<int64_t> zeros = {surrounded.rows ? 0 : 1, surrounded.columns ? 0 : 1};
    return at::conv2d(surrounded.x, filter_of(x, 1.0), {}, 2, zeros, 1, channels);
  }
  // What the pixels around an image or a tile add beyond it is cut off.
  const std::vector<int64_t> cut = {surrounded.rows ? 3 : 1, surrounded.columns ? 3 : 1};
  return at::conv_transpose2d(surrounded.x, filter_of(x, 2.0), {}, 2, cut, 0, channels);
}

}  // namespace

at::Tensor resample(const at::Tensor& x, Resampling resampling, ResamplingFilter filter, const Partition& partition) {
  if (resampling == Resampling::none) return x;
  if (filter == ResamplingFilter::box) return box(x, resampling, partition);
  return filtered(x, resampling, filter == ResamplingFilter::reflected_fir, partition);
}

}  // namespace ddpm::nn
