#include "nn/ops/tile_convolution.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "nn/ops/cpu/dispatch.h"
#include "nn/ops/cpu/items.h"
#include "nn/ops/repeated_convolution.h"

namespace ddpm::nn {
namespace {

using cpu::BFloat16;
using cpu::kTileChannels;
using cpu::TileConvolution;
using cpu::TileConvolutionPart;
using cpu::TileConvolutionShape;
using cpu::Window;

int64_t quotient_up(int64_t n, int64_t divisor) { return (n + divisor - 1) / divisor; }

/// [phases, O, C, taps] -> [phases, O / 32, taps, C / 32, 2, 16, 16, 2]
at::Tensor in_tiles(const at::Tensor& weight) {
  constexpr int64_t kSide = kTileChannels / 2;
  return weight
      .reshape({weight.size(0), weight.size(1) / kTileChannels, 2, kSide, weight.size(2) / kTileChannels, kSide, 2,
                weight.size(3)})
      .permute({0, 1, 7, 4, 2, 5, 3, 6})
      .contiguous();
}

/// The taps [4, O, C, 2 x 2] of each phase. Along an axis, taps 3, 1 of the transposed convolution are those of the
/// first phase, and 2, 0 those of the second one.
at::Tensor taps_of_phases(const at::Tensor& weight) {
  const at::Tensor taps = repeated_weight(weight).transpose(0, 1).flip({2, 3});
  return taps.reshape({weight.size(0), weight.size(1), 2, 2, 2, 2})
      .permute({3, 5, 0, 1, 2, 4})
      .reshape({4, weight.size(0), weight.size(1), 4});
}

Window window_of(const TileWeights& weights) {
  if (weights.repeated) return Window::doubled;
  return weights.stride == 2 ? Window::halved : Window::same;
}

TileConvolutionShape shape_of(const at::Tensor& x, const TileWeights& weights) {
  return {.height = x.size(2) / weights.stride,
          .width = x.size(3) / weights.stride,
          .in = weights.in,
          .out = weights.bias.size(0),
          .window = window_of(weights),
          .before = weights.before};
}

/// What threads do side by side: parts of an image, and where these are fewer than threads, of its outputs.
class Work {
 public:
  Work(const TileConvolutionShape& shape, int64_t images)
      : height_(shape.height),
        blocks_(shape.out / kTileChannels),
        rows_(cpu::tile_kernels()->convolution.rows(shape)),
        parts_(quotient_up(height_, rows_)) {
    const int64_t wanted = quotient_up(at::get_num_threads(), std::max<int64_t>(1, images * parts_));
    blocks_of_item_ = quotient_up(blocks_, std::min(blocks_, wanted));
    splits_ = quotient_up(blocks_, blocks_of_item_);
    items_ = images * parts_ * splits_;
  }

  [[nodiscard]] int64_t items() const { return items_; }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t image(int64_t item) const { return item / splits_ / parts_; }
  [[nodiscard]] TileConvolutionPart part(int64_t item) const {
    const int64_t row = item / splits_ % parts_ * rows_;
    const int64_t block = item % splits_ * blocks_of_item_;
    return {.first_row = row,
            .rows = std::min(rows_, height_ - row),
            .first_output = block * kTileChannels,
            .outputs = std::min(blocks_of_item_, blocks_ - block) * kTileChannels};
  }

 private:
  int64_t height_;
  int64_t blocks_;  ///< of kTileChannels outputs
  int64_t rows_;
  int64_t parts_;
  int64_t blocks_of_item_ = 0;
  int64_t splits_ = 0;
  int64_t items_ = 0;
};

}  // namespace

bool tile_convolution_serves(const at::Tensor& weight, const ConvolutionOptions& options) {
  const bool border = options.after == 1 && (options.stride == 1 ? options.before == 1 : options.stride == 2);
  return options.dimensions == 2 && options.kernel == 3 && border && weight.is_cpu() &&
         weight.scalar_type() == at::kBFloat16 && cpu::tile_kernels() != nullptr &&
         weight.size(0) % kTileChannels == 0 && weight.size(1) % kTileChannels == 0;
}

TileWeights tile_weights(const at::Tensor& weight, const at::Tensor& bias, const ConvolutionOptions& options,
                         bool repeated) {
  DDPM_CHECK(!repeated || options.stride == 1, "repeated pixels with a stride of {}", options.stride);
  const at::Tensor taps = repeated ? taps_of_phases(weight) : weight.flatten(2).unsqueeze(0);
  return {.values = in_tiles(taps),
          .bias = bias.defined() ? bias.to(at::kFloat).contiguous() : at::zeros({weight.size(0)}, at::kFloat),
          .in = weight.size(1),
          .stride = options.stride,
          .before = options.before,
          .repeated = repeated};
}

at::Tensor tile_convolution(const at::Tensor& x_any, const TileWeights& weights) {
  DDPM_CHECK(x_any.scalar_type() == at::kBFloat16 && x_any.is_cpu(), "an image of {} on {}",
             c10::toString(x_any.scalar_type()), x_any.device().str());
  DDPM_CHECK(x_any.size(1) == weights.in, "{} channels, wanted {}", x_any.size(1), weights.in);
  DDPM_CHECK(x_any.size(2) % weights.stride == 0 && x_any.size(3) % weights.stride == 0,
             "an image of {} x {} pixels, wanted multiples of {}", x_any.size(2), x_any.size(3), weights.stride);
  const at::Tensor x = x_any.contiguous(at::MemoryFormat::ChannelsLast);
  const TileConvolutionShape shape = shape_of(x, weights);
  const int64_t scale = weights.repeated ? 2 : 1;
  at::Tensor y = at::empty({x.size(0), shape.out, scale * shape.height, scale * shape.width},
                           x.options().memory_format(at::MemoryFormat::ChannelsLast));
  const TileConvolution& kernel = cpu::tile_kernels()->convolution;
  const Work work(shape, x.size(0));
  const auto* const from = static_cast<const BFloat16*>(x.const_data_ptr());
  const auto* const values = static_cast<const BFloat16*>(weights.values.const_data_ptr());
  const auto* const bias = weights.bias.const_data_ptr<float>();
  auto* const to = static_cast<BFloat16*>(y.mutable_data_ptr());
  cpu::for_items(work.items(), kernel.scratch(shape, work.rows()), [&](int64_t item, float* scratch) {
    const int64_t image = work.image(item);
    kernel.run(shape, work.part(item), from + image * x.stride(0), values, bias, to + image * y.stride(0), scratch);
  });
  return y;
}

}  // namespace ddpm::nn
