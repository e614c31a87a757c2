#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/round_up.h"
#include "nn/ops/winograd_passes.h"

namespace ddpm::nn::winograd {
namespace {

using cpu::kWinogradChannels;
using cpu::kWinogradPoints;
using cpu::kWinogradTaps;
using cpu::kWinogradTogether;
using cpu::winograd_stride;
using cpu::WinogradOrder;
using cpu::WinogradWeightKernels;

/// The gradient of some outputs' weights. x and the gradient of the result are held at the points for so many tiles
/// that they stay in a cache of the third level, and so are the sums of their products.
class WeightGradient {
 public:
  WeightGradient(const WinogradShape& shape, int64_t tiles, int64_t first, int64_t outputs)
      : shape_(shape),
        tiles_(tiles),
        first_(first),
        outputs_(outputs),
        block_(std::min(tiles, std::max<int64_t>(kFloats / (kWinogradPoints * (shape.in + wide_)), 1))),
        image_{.width = kWinogradChannels,
               .point = winograd_stride(block_ * shape.in),
               .chunk = block_ * kWinogradChannels,
               .tile = kWinogradChannels},
        gradient_{.width = width_, .point = winograd_stride(block_ * wide_), .chunk = block_ * width_, .tile = width_},
        image_points_(floats(kWinogradPoints * image_.point)),
        gradient_points_(floats(kWinogradPoints * gradient_.point)),
        sums_(at::zeros({kWinogradPoints * stride_}, at::kFloat)) {
    if (wide_ != outputs) gradient_points_.zero_();  // what fills up a vector
  }

  template <typename T>
  void add(const T* x, const T* dy) {
    const cpu::WinogradKernels<T>& kernel = cpu::winograd_kernels<T>();
    auto* const image = image_points_.mutable_data_ptr<float>();
    auto* const gradient = gradient_points_.mutable_data_ptr<float>();
    for (int64_t done = 0; done < tiles_; done += block_) {
      const int64_t count = std::min(block_, tiles_ - done);
      at::parallel_for(0, count, 4, [&](int64_t begin, int64_t end) {
        kernel.image_points(shape_, x, done + begin, end - begin, image_, image + begin * image_.tile);
        kernel.gradient_points(shape_, dy + first_, outputs_, done + begin, end - begin, gradient_,
                               gradient + begin * gradient_.tile);
      });
      add_products(count);
    }
  }

  /// Writes these outputs of the gradient of all [O, C, 3, 3], in float32 and channels-last order.
  void write(const at::Tensor& gradient) const {
    const WinogradWeightKernels& kernel = weight_kernels();
    const auto* const sums = sums_.const_data_ptr<float>();
    auto* const values = gradient.mutable_data_ptr<float>() + first_ * kWinogradTaps * shape_.in;
    at::parallel_for(0, shape_.in / kWinogradTogether, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        kernel.gradient(sums + piece * kWinogradTogether * wide_, wide_, stride_, shape_.in, outputs_,
                        values + piece * kWinogradTogether);
      }
    });
  }

 private:
  static constexpr int64_t kFloats = kWinogradBlockBytes / 4;

  void add_products(int64_t count) {
    const WinogradWeightKernels& kernel = weight_kernels();
    const auto* const image = image_points_.const_data_ptr<float>();
    const auto* const gradient = gradient_points_.const_data_ptr<float>();
    auto* const sums = sums_.mutable_data_ptr<float>();
    const int64_t parts = wide_ / width_;
    at::parallel_for(0, kWinogradPoints * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i / parts;
        const int64_t part = i % parts;
        kernel.add_products(image + p * image_.point, image_.chunk, shape_.in,
                            gradient + p * gradient_.point + part * gradient_.chunk, count, wide_,
                            sums + p * stride_ + part * width_);
      }
    });
  }

  WinogradShape shape_;
  int64_t tiles_;
  int64_t first_;
  int64_t outputs_;
  int64_t width_ = weight_kernels().width;
  int64_t wide_ = base::round_up(outputs_, width_);
  int64_t stride_ = winograd_stride(shape_.in * wide_);  // values from one point's sums to the next point's
  int64_t block_;
  WinogradOrder image_;
  WinogradOrder gradient_;
  at::Tensor image_points_;
  at::Tensor gradient_points_;
  at::Tensor sums_;
};

}  // namespace

at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x) {
  const WinogradShape shape = shape_of(x, dy.size(1), /*repeated=*/false);
  at::Tensor gradient = at::empty({shape.out, shape.in, 3, 3},
                                  at::TensorOptions(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast));
  const int64_t most = outputs_at_once(shape.in);
  with_pointers(x, shape.in, dy, [&]<typename T>(const T* image, const T* gradients) {
    for (int64_t first = 0; first < shape.out; first += most) {
      WeightGradient sum(shape, tiles_of(shape, x.size(0)), first, std::min(most, shape.out - first));
      sum.add<T>(image, gradients);
      sum.write(gradient);
    }
  });
  return gradient;
}

}  // namespace ddpm::nn::winograd
