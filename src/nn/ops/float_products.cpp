#include "nn/ops/float_products.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/linear.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "nn/ops/channel_bias.h"

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kStride = "stride";
constexpr const char* kPadding = "padding";
constexpr int64_t kVolumeAxes = 5;  // [N, C, D, H, W]

at::Tensor wide(const at::Tensor& t) { return t.to(at::kFloat); }

#if defined(__x86_64__)
/// By CPUID, since clang 14 has no name for it.
bool has_avx512_fp16() {
  constexpr unsigned kFeatures = 7;
  constexpr unsigned kAvx512Fp16 = 1U << 23U;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAvx512Fp16) != 0;
}
#endif

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    context->save_for_backward({x, weight});
    return at::linear(wide(x), wide(weight), wide(bias)).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "linear_in_float has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::ScalarType dtype = x.scalar_type();
    const at::Tensor dy = wide(gradients[0]);
    const at::Tensor rows = dy.reshape({-1, dy.size(-1)});
    const at::Tensor none;
    const bool wants_bias = context->needs_input_grad(2);
    return {context->needs_input_grad(0) ? dy.matmul(wide(weight)).to(dtype) : none,
            context->needs_input_grad(1) ? rows.t().mm(wide(x).reshape({-1, x.size(-1)})).to(dtype) : none,
            wants_bias ? rows.sum(0).to(dtype) : none};
  }
};

struct ConvolutionFunction : torch::autograd::Function<ConvolutionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t stride, at::IntArrayRef padding) {
    context->save_for_backward({x, weight});
    context->saved_data[kStride] = stride;
    context->saved_data[kPadding] = padding;
    const at::Tensor y = padding.size() == 2 ? at::conv2d(wide(x), wide(weight), wide(bias), stride, padding)
                                             : at::conv3d(wide(x), wide(weight), wide(bias), stride, padding);
    return y.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "convolution_in_float has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::ScalarType dtype = x.scalar_type();
    const int64_t stride = context->saved_data[kStride].toInt();
    const std::vector<int64_t> padding = context->saved_data[kPadding].toIntVector();
    const bool wants_weight = context->needs_input_grad(1);
    const bool wants_bias = context->needs_input_grad(2);
    const std::vector<int64_t> outputs = {weight.size(0)};
    const std::vector<int64_t> strides(padding.size(), stride);
    const std::vector<int64_t> ones(padding.size(), 1);
    const std::vector<int64_t> zeros(padding.size(), 0);
    const auto [dx, dweight, dbias] = at::convolution_backward(
        wide(gradients[0]), wide(x), wide(weight), at::OptionalIntArrayRef(outputs), strides, padding, ones,
        /*transposed=*/false, zeros, /*groups=*/1, {context->needs_input_grad(0), wants_weight, wants_bias});
    return {dx.defined() ? dx.to(dtype) : dx, wants_weight ? dweight.to(dtype) : dweight,
            wants_bias ? dbias.to(dtype) : dbias, at::Tensor(), at::Tensor()};
  }
};

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    DDPM_CHECK(q.stride(3) == 1 && k.stride(3) == 1 && v.stride(3) == 1, "rows of heads lie scattered");
    const auto [wide_y, log_sums] = at::_scaled_dot_product_flash_attention_for_cpu(wide(q), wide(k), wide(v));
    at::Tensor y = wide_y.to(q.scalar_type());
    context->save_for_backward({q, k, v, log_sums, y});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "attention_in_float has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &log_sums = saved[3], &y = saved[4];
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        wide(gradients[0]), wide(q), wide(k), wide(v), wide(y), log_sums, /*dropout_p=*/0.0, /*is_causal=*/false);
    const at::ScalarType dtype = q.scalar_type();
    return {dq.to(dtype), dk.to(dtype), dv.to(dtype)};
  }
};

}  // namespace

bool has_products(at::ScalarType dtype) {
#if defined(__x86_64__)
  static const bool kAvx512 = __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                              __builtin_cpu_supports("avx512dq") != 0;
  static const bool kHalf = kAvx512 && has_avx512_fp16();
  if (dtype == at::kBFloat16) return kAvx512;
  if (dtype == at::kHalf) return kHalf;
#elif defined(__aarch64__) && defined(__linux__)
  static const bool kBfloat16 = (getauxval(AT_HWCAP2) & (1UL << 14U)) != 0;  // HWCAP2_BF16
  static const bool kHalf = (getauxval(AT_HWCAP) & (1UL << 10U)) != 0;       // HWCAP_ASIMDHP
  if (dtype == at::kBFloat16) return kBfloat16;
  if (dtype == at::kHalf) return kHalf;
#else
  (void)dtype;
#endif
  return true;
}

bool wants_float_products(const at::Tensor& x) {
  return x.is_cpu() && (!has_products(x.scalar_type()) || wants_float_volumes(x));
}

bool wants_float_volumes(const at::Tensor& x) {
  return x.dim() == kVolumeAxes && c10::isReducedFloatingType(x.scalar_type());
}

at::Tensor linear_in_float(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return LinearFunction::apply(x, weight, bias_or_zeros(bias, weight));
}

at::Tensor convolution_in_float(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                                at::IntArrayRef padding) {
  return ConvolutionFunction::apply(x, weight, bias_or_zeros(bias, weight), stride, padding);
}

at::Tensor attention_in_float(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return AttentionFunction::apply(q, k, v);
}

}  // namespace ddpm::nn
