#include "nn/ops/winograd.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "base/round_up.h"
#include "nn/ops/channel_bias.h"
#include "nn/ops/column_sums.h"
#include "nn/ops/cpu/dispatch.h"
#include "nn/ops/winograd_passes.h"

namespace ddpm::nn {
namespace {

using cpu::kWinogradChannels;
using cpu::kWinogradPoints;
using cpu::kWinogradTaps;
using cpu::kWinogradTogether;
using cpu::winograd_stride;
using cpu::WinogradShape;
using cpu::WinogradWeightKernels;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using winograd::floats;
using winograd::in_order;
using winograd::outputs_at_once;
using winograd::shape_of;
using winograd::tiles_of;
using winograd::weight_kernels;
using winograd::with_pointers;

/// A weight [O, C, 3, 3], in float32 and channels-last order. Turned, it takes gradients of the result to those of x.
class Kernels {
 public:
  Kernels(const at::Tensor& weight, bool turned) : weight_(in_order(weight.to(at::kFloat))), turned_(turned) {}

  [[nodiscard]] int64_t out() const { return weight_.size(turned_ ? 1 : 0); }
  [[nodiscard]] int64_t in() const { return weight_.size(turned_ ? 0 : 1); }
  /// The numbers that `outputs` of them have at the points.
  [[nodiscard]] int64_t size_at_points(int64_t outputs) const {
    const int64_t width = weight_kernels().width;
    return base::round_up(outputs, width) / width * kWinogradPoints * winograd_stride(in() * width);
  }

  /// [⌈outputs / width⌉, points, in, width]: those of `outputs` from `first` on.
  void write_points(int64_t first, int64_t outputs, float* to) const {
    const int64_t width = weight_kernels().width;
    const int64_t parts = base::round_up(outputs, width) / width;
    const int64_t pieces = turned_ ? in() : in() / kWinogradTogether;  // pieces in each part
    at::parallel_for(0, parts * pieces, kWinogradTogether, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t done = i / pieces * width;
        write_piece(first + done, std::min(width, outputs - done), i % pieces, to + size_at_points(done));
      }
    });
  }

 private:
  /// A piece of a part: turned kernels of one output, or others of kWinogradTogether channels.
  void write_piece(int64_t first, int64_t outputs, int64_t piece, float* part) const {
    const WinogradWeightKernels& kernel = weight_kernels();
    const auto* const from = weight_.const_data_ptr<float>();
    const int64_t channels = weight_.size(1);
    const int64_t stride = winograd_stride(in() * kernel.width);
    if (turned_) {
      kernel.turned_to_points(from + piece * kWinogradTaps * channels + first, channels, outputs, stride,
                              part + piece * kernel.width);
    } else {
      kernel.to_points(from + first * kWinogradTaps * channels + piece * kWinogradTogether, channels, outputs, stride,
                       part + piece * kWinogradTogether * kernel.width);
    }
  }

  at::Tensor weight_;
  bool turned_;
};

at::Tensor bias_in_float(const at::Tensor& bias, int64_t out) {
  return bias.defined() ? bias.to(at::kFloat).contiguous() : at::zeros({out}, at::kFloat);
}

/// Room for the result of x.
at::Tensor result_of(const at::Tensor& x, int64_t out, bool repeated) {
  const WinogradShape shape = shape_of(x, out, repeated);
  return at::empty({x.size(0), out, shape.height, shape.width},
                   x.options().memory_format(at::MemoryFormat::ChannelsLast));
}

/// `outputs` channels from that of y on. Sizes and weights are as cpu::WinogradKernels wants them.
template <typename T>
void compute_tiles(const WinogradShape& shape, int64_t images, const T* x, const float* weights, const float* bias,
                   int64_t outputs, T* y) {
  constexpr int64_t kFew = 12;  // with fewer tiles for a thread the products suffer
  const cpu::WinogradKernels<T>& kernel = cpu::winograd_kernels<T>();
  at::parallel_for(0, tiles_of(shape, images), kFew, [&](int64_t begin, int64_t end) {
    const auto lines = static_cast<std::size_t>((kernel.scratch(shape) + 15) / 16);
    const auto scratch = std::make_unique_for_overwrite<cpu::Line[]>(lines);
    kernel.run(shape, x, weights, bias, outputs, begin, end, y, scratch[0].floats);
  });
}

/// Fills y. Autograd need not know.
void compute(const at::Tensor& x, const Kernels& kernels, const at::Tensor& bias_any, const at::Tensor& y) {
  const WinogradShape shape = shape_of(x, y.size(1), /*repeated=*/false);
  const at::Tensor bias = bias_in_float(bias_any, shape.out);
  const int64_t most = std::min(outputs_at_once(shape.in), shape.out);
  const at::Tensor points = floats(kernels.size_at_points(most));
  with_pointers(x, kernels.in(), y, [&]<typename T>(const T* from, T* to) {
    for (int64_t first = 0; first < shape.out; first += most) {
      const int64_t outputs = std::min(most, shape.out - first);
      kernels.write_points(first, outputs, points.mutable_data_ptr<float>());
      compute_tiles<T>(shape, x.size(0), from, points.const_data_ptr<float>(), bias.const_data_ptr<float>() + first,
                       outputs, to + first);
    }
  });
}

/// Its forward pass makes room for the result only. Autograd saves what it is told to when that returns, and where a
/// block is computed again for backward, it ends there: the convolution itself is not needed.
struct WinogradFunction : torch::autograd::Function<WinogradFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& /*bias*/) {
    context->save_for_backward({x, weight});
    return result_of(x, weight.size(0), /*repeated=*/false);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "winograd_convolution has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const auto [dx, dweight, dbias] =
        winograd_backward(gradients[0], saved[0], saved[1],
                          {context->needs_input_grad(0), context->needs_input_grad(1), context->needs_input_grad(2)});
    return {dx, dweight, dbias};
  }
};

}  // namespace

bool winograd_serves(const at::Tensor& weight, int64_t stride, at::IntArrayRef padding) {
  const bool kind = stride == 1 && padding.equals({1, 1}) && weight.sizes().slice(2).equals({3, 3});
  const bool tiles = weight.scalar_type() == at::kBFloat16 && cpu::multiplies_bfloat16_tiles();
  return kind && !tiles && weight.is_cpu() && cpu::has_kernels(weight.scalar_type()) &&
         weight.size(0) % kWinogradChannels == 0 && weight.size(1) % kWinogradChannels == 0 &&
         weight_kernels().width > 0;
}

WinogradWeights winograd_weights(const at::Tensor& weight, const at::Tensor& bias) {
  const Kernels kernels(weight, /*turned=*/false);
  at::Tensor points = floats(kernels.size_at_points(kernels.out()));
  kernels.write_points(0, kernels.out(), points.mutable_data_ptr<float>());
  return {.points = std::move(points), .bias = bias_in_float(bias, kernels.out()), .in = kernels.in()};
}

at::Tensor winograd_inference(const at::Tensor& x, const WinogradWeights& weights, bool repeated) {
  at::Tensor y = result_of(x, weights.bias.size(0), repeated);
  const WinogradShape shape = shape_of(x, y.size(1), repeated);
  with_pointers(x, weights.in, y, [&]<typename T>(const T* from, T* to) {
    compute_tiles<T>(shape, x.size(0), from, weights.points.const_data_ptr<float>(),
                     weights.bias.const_data_ptr<float>(), shape.out, to);
  });
  return y;
}

at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor added = bias_or_zeros(bias, weight);
  at::Tensor y = WinogradFunction::apply(x, weight, added);
  const at::NoGradGuard no_grad;
  compute(x, Kernels(weight, /*turned=*/false), added, y);
  return y;
}

std::array<at::Tensor, 3> winograd_backward(const at::Tensor& dy_any, const at::Tensor& x, const at::Tensor& weight,
                                            std::array<bool, 3> wanted) {
  DDPM_CHECK(dy_any.scalar_type() == x.scalar_type(), "a gradient of {}, wanted {}",
             c10::toString(dy_any.scalar_type()), c10::toString(x.scalar_type()));
  const at::Tensor dy = in_order(dy_any);
  at::Tensor dx, dweight, dbias;
  if (wanted[0]) {
    dx = result_of(dy, x.size(1), /*repeated=*/false);
    compute(dy, Kernels(weight, /*turned=*/true), {}, dx);
  }
  if (wanted[1]) dweight = winograd::weight_gradient(dy, x).to(weight.scalar_type());
  if (wanted[2]) dbias = column_sums(dy.permute({0, 2, 3, 1}).reshape({-1, dy.size(1)}));
  return {dx, dweight, dbias};
}

}  // namespace ddpm::nn
