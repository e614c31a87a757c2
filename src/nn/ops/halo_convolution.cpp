#include "nn/ops/halo_convolution.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "nn/ops/channel_bias.h"
#include "nn/ops/float_products.h"
#include "nn/ops/meta.h"
#include "nn/ops/remembered.h"
#include "nn/ops/volume.h"
#include "nn/ops/volume_products.h"
#include "nn/ops/winograd.h"

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The first (-1), all (0) or the last (1) entries of x [N, C, axes...] along each axis.
at::Tensor at_offset(at::Tensor x, const Offset& offset) {
  for (int64_t axis = 0; axis < x.dim() - 2; ++axis) {
    const int side = offset.at(static_cast<std::size_t>(axis));
    if (side != 0) x = x.narrow(-1 - axis, side < 0 ? 0 : x.size(-1 - axis) - 1, 1);
  }
  return x;
}

std::vector<at::Tensor> borders(const at::Tensor& x, std::span<const Offset> around) {
  std::vector<at::Tensor> pieces(around.size());
  std::ranges::transform(around, pieces.begin(),
                         [&](const Offset& offset) { return at_offset(x, offset).contiguous(channels_last_order(x)); });
  return pieces;
}

/// The convolution of what lies at an offset. Of the kernel only that end is used: along the other axes it is whole,
/// with a zero on both sides. Offset {}: of the tile.
class ConvolutionAt {
 public:
  ConvolutionAt(const Offset& offset, const at::Tensor& weight)
      : weight_(at_offset(weight, offset)),
        ones_(static_cast<std::size_t>(weight.dim()) - 2, 1),
        zeros_(ones_.size(), 0) {
    for (std::size_t axis = ones_.size(); axis-- > 0;) padding_.push_back(offset.at(axis) == 0 ? 1 : 0);
  }

  [[nodiscard]] at::Tensor of(const at::Tensor& x, const at::Tensor& bias) const {
    if (takes_winograd(x, weight_, 1, padding_)) return winograd_convolution(x, weight_, bias);
    return at::convolution(x, weight_, bias, ones_, padding_, ones_, /*transposed=*/false, zeros_, /*groups=*/1);
  }
  /// The gradients of x, weight and bias, of those that are wanted.
  [[nodiscard]] std::array<at::Tensor, 3> backward(const at::Tensor& dy, const at::Tensor& x,
                                                   std::array<bool, 3> wanted) const {
    if (takes_winograd(x, weight_, 1, padding_)) return winograd_backward(dy, x, weight_, wanted);
    if (x.is_cpu() && has_volume_products(weight_)) return volume_gradients(dy, x, weight_, 1, padding_, wanted);
    const std::vector<int64_t> outputs = {weight_.size(0)};
    auto [dx, dweight, dbias] =
        at::convolution_backward(dy, x, weight_, at::OptionalIntArrayRef(outputs), ones_, padding_, ones_,
                                 /*transposed=*/false, zeros_, /*groups=*/1, wanted);
    return {std::move(dx), std::move(dweight), std::move(dbias)};
  }

 private:
  at::Tensor weight_;
  std::vector<int64_t> ones_;
  std::vector<int64_t> zeros_;
  std::vector<int64_t> padding_;
};

/// The arithmetic's dtype.
at::ScalarType product_dtype(const at::Tensor& x, const at::Tensor& weight) {
  return wants_float_products(x) && !has_volume_products(weight) ? at::kFloat : x.scalar_type();
}

struct HaloConvolution : torch::autograd::Function<HaloConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const Partition* partition) {
    const std::span<const Offset> around = partition->neighbours();
    const std::unique_ptr<Trade> trade = partition->trade(around, borders(x, around));
    const at::ScalarType dtype = product_dtype(x, weight);
    const at::Tensor w = weight.to(dtype);
    at::Tensor y = ConvolutionAt({}, w).of(x.to(dtype), bias.to(dtype));
    variable_list saved = trade->wait();
    for (std::size_t i = 0; i < around.size(); ++i) {
      at_offset(y, around[i]).add_(ConvolutionAt(around[i], w).of(saved[i].to(dtype), {}));
    }
    saved.insert(saved.end(), {x, weight});
    context->save_for_backward(std::move(saved));
    remember(*context, partition);
    return y.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "halo_convolution has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = *(saved.end() - 2);
    const at::ScalarType stored = x.scalar_type();
    const at::ScalarType dtype = product_dtype(x, saved.back());
    const at::Tensor weight = saved.back().to(dtype);
    const at::Tensor dy = gradients[0].to(dtype).contiguous(channels_last_order(x));
    const bool wants_x = context->needs_input_grad(0);
    const bool wants_weight = context->needs_input_grad(1);
    const auto* partition = remembered<const Partition*>(*context);
    const std::span<const Offset> around = partition->neighbours();

    std::vector<at::Tensor> beside;
    std::vector<at::Tensor> taps;
    const std::vector<at::Tensor> edges = borders(dy, around);
    for (std::size_t i = 0; i < around.size(); ++i) {
      auto [dpiece, dtap, none] =
          ConvolutionAt(around[i], weight).backward(edges[i], saved[i].to(dtype), {wants_x, wants_weight, false});
      if (wants_x) beside.push_back(dpiece.to(stored).contiguous(channels_last_order(x)));
      taps.push_back(std::move(dtap));
    }
    std::unique_ptr<Trade> trade;
    if (wants_x) trade = partition->trade(around, beside);
    auto [dx, dweight, dbias] =
        ConvolutionAt({}, weight).backward(dy, x.to(dtype), {wants_x, wants_weight, context->needs_input_grad(2)});
    if (wants_x) beside = trade->wait();
    for (std::size_t i = 0; i < around.size(); ++i) {
      if (wants_x) at_offset(dx, around[i]).add_(beside[i]);
      if (wants_weight) at_offset(dweight, around[i]).add_(taps[i]);
    }
    const auto rounded = [&](const at::Tensor& t) { return t.defined() ? t.to(stored) : t; };
    return {rounded(dx), rounded(dweight), rounded(dbias), at::Tensor()};
  }
};

at::Tensor on_meta(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const Partition& partition) {
  const std::span<const Offset> around = partition.neighbours();
  variable_list saved = partition.trade(around, borders(x, around))->wait();
  saved.insert(saved.end(), {x, weight});
  std::vector<at::Tensor> inputs = {x, weight};
  if (bias.defined()) inputs.push_back(bias);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[1] = weight.size(0);
  return run_on_meta({.inputs = std::move(inputs),
                      .result_sizes = std::move(sizes),
                      .result_options = x.options().memory_format(channels_last_order(x)),
                      .saved = std::move(saved)});
}

}  // namespace

at::Tensor halo_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const Partition& partition) {
  if (x.is_meta()) return on_meta(x, weight, bias, partition);
  return HaloConvolution::apply(x, weight, bias_or_zeros(bias, weight), &partition);
}

}  // namespace ddpm::nn
