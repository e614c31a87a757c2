#include "nn/ops/volume_products.h"

#include <algorithm>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "nn/ops/channel_bias.h"
#include "nn/ops/float_products.h"

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChannels = 8;  // of x: in multiples of it
constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kBlockBytes = int64_t{32} << 20;  // of the copies of some planes

/// `count` planes from `first` on in float32; zeros where x has none.
at::Tensor wide_planes(const at::Tensor& x, int64_t first, int64_t count) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[2] = count;
  at::Tensor planes = at::empty(sizes, x.options().dtype(at::kFloat), at::MemoryFormat::ChannelsLast3d);
  const int64_t begin = std::max<int64_t>(0, first);
  const int64_t end = std::min(x.size(2), first + count);
  if (end - begin < count) planes.zero_();
  planes.narrow(2, begin - first, end - begin).copy_(x.narrow(2, begin, end - begin));
  return planes;
}

/// How many planes of dy the weights' gradient takes at once, and how many of x these see.
struct Block {
  int64_t planes = 1;
  int64_t seen = 1;

  /// The most whose copies fit kBlockBytes, or one. `x_plane` and `dy_plane`: bytes of a plane of all images.
  static Block of(int64_t x_plane, int64_t dy_plane, int64_t kernel, int64_t stride, int64_t depth) {
    const int64_t most = (kBlockBytes - x_plane * (kernel - stride)) / (x_plane * stride + dy_plane);
    const int64_t planes = std::clamp<int64_t>(most, 1, depth);
    return {.planes = planes, .seen = (planes - 1) * stride + kernel};
  }
};

/// What convolution_backward is told beside its tensors.
struct Gradient {
  std::vector<int64_t> strides;
  std::vector<int64_t> padding;

  [[nodiscard]] std::array<at::Tensor, 3> of(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                             std::array<bool, 3> wanted) const {
    const std::vector<int64_t> ones(strides.size(), 1);
    const std::vector<int64_t> zeros(strides.size(), 0);
    auto [dx, dweight, dbias] = at::convolution_backward(dy, x, weight, /*bias_sizes=*/{}, strides, padding, ones,
                                                         /*transposed=*/false, zeros, /*groups=*/1, wanted);
    return {std::move(dx), std::move(dweight), std::move(dbias)};
  }
};

at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, int64_t stride,
                           at::IntArrayRef padding) {
  const at::Tensor shape = weight.to(at::kFloat);  // of which only the sizes count
  at::Tensor sum = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
  const Gradient gradient{.strides = std::vector<int64_t>(3, stride), .padding = {0, padding[1], padding[2]}};
  const Block block = Block::of(kFloat * (x.numel() / x.size(2)), kFloat * (dy.numel() / dy.size(2)), weight.size(2),
                                stride, dy.size(2));
  for (int64_t begin = 0; begin < dy.size(2); begin += block.planes) {
    const int64_t count = std::min(block.planes, dy.size(2) - begin);
    const at::Tensor seen = wide_planes(x, begin * stride - padding[0], (count - 1) * stride + weight.size(2));
    sum.add_(gradient.of(wide_planes(dy, begin, count), seen, shape, {false, true, false})[1]);
  }
  return sum;
}

struct VolumeConvolution : torch::autograd::Function<VolumeConvolution> {
  static constexpr const char* kStride = "stride";
  static constexpr const char* kPadding = "padding";

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t stride, at::IntArrayRef padding) {
    context->save_for_backward({x, weight});
    context->saved_data[kStride] = stride;
    context->saved_data[kPadding] = padding;
    return at::conv3d(x, weight, bias, stride, padding);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "volume_convolution has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const std::vector<int64_t> padding = context->saved_data[kPadding].toIntVector();
    const auto [dx, dweight, dbias] =
        volume_gradients(gradients[0], x, weight, context->saved_data[kStride].toInt(), padding,
                         {context->needs_input_grad(0), context->needs_input_grad(1), context->needs_input_grad(2)});
    const at::ScalarType dtype = x.scalar_type();
    const auto rounded = [&](const at::Tensor& t) { return t.defined() ? t.to(dtype) : t; };
    return {dx, rounded(dweight), rounded(dbias), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool has_volume_products(const at::Tensor& weight) {
  return wants_float_volumes(weight) && weight.scalar_type() == at::kBFloat16 && has_products(at::kBFloat16) &&
         weight.size(1) % kChannels == 0;
}

at::Tensor volume_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                              at::IntArrayRef padding) {
  return VolumeConvolution::apply(x, weight, bias_or_zeros(bias, weight), stride, padding);
}

std::array<at::Tensor, 3> volume_gradients(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                           int64_t stride, at::IntArrayRef padding, std::array<bool, 3> wanted) {
  std::array<at::Tensor, 3> gradients;
  // The copies are gone before there is a gradient of x.
  if (wanted[1]) gradients[1] = weight_gradient(dy, x, weight, stride, padding);
  if (wanted[0]) {
    const Gradient gradient{.strides = std::vector<int64_t>(3, stride), .padding = padding.vec()};
    gradients[0] = gradient.of(dy, x, weight, {true, false, false})[0];
  }
  if (wanted[2]) gradients[2] = dy.sum({0, 2, 3, 4}, /*keepdim=*/false, at::kFloat);
  return gradients;
}

int64_t volume_copy_bytes(const at::Tensor& weight, int64_t pixels, int64_t depth) {
  if (!wants_float_volumes(weight)) return 0;
  const int64_t in = weight.size(1);
  const int64_t out = weight.size(0);
  if (has_volume_products(weight)) {
    const int64_t plane = kFloat * (pixels / depth);
    const Block block = Block::of(in * plane, out * plane, weight.size(2), /*stride=*/1, depth);
    return (in * block.seen + out * block.planes) * plane;
  }
  const int64_t rounded = static_cast<int64_t>(weight.element_size()) * in;
  return (kFloat * (2 * in + out) + rounded) * pixels;
}

}  // namespace ddpm::nn
