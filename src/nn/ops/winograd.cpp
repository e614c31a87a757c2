#include "nn/ops/winograd.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "base/check.h"
#include "nn/ops/cpu/dispatch.h"

namespace ddpm::nn {
namespace {

using cpu::kWinogradChannels;
using cpu::kWinogradPoints;
using cpu::WinogradShape;

/// G of G g Gᵀ: the values of a polynomial with three coefficients at the points, each divided by the differences to
/// the other points.
at::Tensor at_points() {
  const double u = cpu::kWinogradUnit;
  const double u4 = u * u * u * u;
  std::vector<double> rows;
  const auto add = [&](double x, double divisor) {
    rows.insert(rows.end(), {1 / divisor, x / divisor, x * x / divisor});
  };
  add(0, 4 * u4);
  add(u, -6 * u4);
  add(-u, -6 * u4);
  add(2 * u, 24 * u4);
  add(-2 * u, 24 * u4);
  rows.insert(rows.end(), {0.0, 0.0, 1.0});
  return at::tensor(rows, at::kDouble).view({6, 3});
}

template <typename T>
void compute_tiles(const WinogradShape& shape, const at::Tensor& x, const WinogradWeights& weights,
                   const at::Tensor& y) {
  const cpu::WinogradKernels<T>& kernel = cpu::winograd_kernels<T>();
  const auto* const from = static_cast<const T*>(x.const_data_ptr());
  auto* const to = static_cast<T*>(y.mutable_data_ptr());
  const int64_t tiles = x.size(0) * ((shape.height + 3) / 4) * ((shape.width + 3) / 4);
  const int64_t block = kernel.block(shape);
  at::parallel_for(0, (tiles + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    std::vector<cpu::Line> scratch(static_cast<std::size_t>((kernel.scratch(shape) + 15) / 16));
    kernel.run(shape, from, weights.points.const_data_ptr<float>(), weights.bias.const_data_ptr<float>(), begin * block,
               std::min(tiles, end * block), to, scratch.front().floats);
  });
}

}  // namespace

bool winograd_serves(const at::Tensor& weight, const ConvolutionOptions& options) {
  const bool kind = options.kernel == 3 && options.stride == 1 && options.before == 1 && options.after == 1 &&
                    options.bias && options.dimensions == 2;
  return kind && weight.is_cpu() && cpu::has_kernels(weight.scalar_type()) && weight.size(0) % kWinogradChannels == 0 &&
         weight.size(1) % kWinogradChannels == 0 && cpu::kernels().winograd_float.width >= 16;
}

WinogradWeights winograd_weights(const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t width = cpu::kernels().winograd_float.width;
  const int64_t out = weight.size(0);
  const int64_t in = weight.size(1);
  const at::Tensor g = at_points();
  const at::Tensor points = g.matmul(weight.to(at::kDouble)).matmul(g.t()).to(at::kFloat).reshape({out, in, -1});
  const at::Tensor whole = at::constant_pad_nd(points, {0, 0, 0, 0, 0, (width - out % width) % width});
  return {.points = whole.view({-1, width, in, kWinogradPoints}).permute({0, 3, 2, 1}).contiguous(),
          .bias = bias.to(at::kFloat).contiguous()};
}

at::Tensor winograd_convolution(const at::Tensor& x_any, const WinogradWeights& weights, bool repeated) {
  const at::Tensor x = x_any.contiguous(at::MemoryFormat::ChannelsLast);
  const int64_t scale = repeated ? 2 : 1;
  const WinogradShape shape{.height = scale * x.size(2),
                            .width = scale * x.size(3),
                            .in = x.size(1),
                            .out = weights.bias.size(0),
                            .repeated = repeated};
  DDPM_CHECK(weights.points.size(2) == shape.in, "{} channels, wanted {}", shape.in, weights.points.size(2));
  at::Tensor y = at::empty({x.size(0), shape.out, shape.height, shape.width},
                           x.options().memory_format(at::MemoryFormat::ChannelsLast));
  cpu::for_dtype(x, [&]<typename T>(T* /*of*/) { compute_tiles<T>(shape, x, weights, y); });
  return y;
}

}  // namespace ddpm::nn
