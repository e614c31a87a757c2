#include "optim/flat_kernels.h"

#include <cmath>

namespace ddpm::optim {
namespace {

#define DDPM_INLINE [[gnu::always_inline]] inline

DDPM_INLINE void adamw_loop(const AdamWScalars& s, std::size_t n, float* __restrict parameter,
                            const float* __restrict gradient, float* __restrict exp_avg, float* __restrict exp_avg_sq) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradient[i] * s.gradient_scale;
    const float m = exp_avg[i] + s.one_minus_beta1 * (g - exp_avg[i]);
    const float v = exp_avg_sq[i] * s.beta2 + s.one_minus_beta2 * g * g;
    const float denominator = std::sqrt(v) / s.root_correction + s.eps;
    parameter[i] = parameter[i] * s.keep - s.step_size * (m / denominator);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
  }
}

DDPM_INLINE void ema_loop(float one_minus_decay, std::size_t n, float* __restrict average,
                          const float* __restrict parameter) {
  for (std::size_t i = 0; i < n; ++i) average[i] -= one_minus_decay * (average[i] - parameter[i]);
}

constexpr std::size_t kLanes = 16;

DDPM_INLINE double squares_loop(std::size_t n, const float* values) {
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      lanes[lane] += x * x;
    }
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) lanes[lane] += static_cast<double>(values[i]) * values[i];
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

#define DDPM_FOR_TARGET(suffix, attribute)                                                                            \
  attribute void adamw_##suffix(const AdamWScalars& s, std::size_t n, float* p, const float* g, float* m, float* v) { \
    adamw_loop(s, n, p, g, m, v);                                                                                     \
  }                                                                                                                   \
  attribute void ema_##suffix(float one_minus_decay, std::size_t n, float* average, const float* p) {                 \
    ema_loop(one_minus_decay, n, average, p);                                                                         \
  }                                                                                                                   \
  attribute double squares_##suffix(std::size_t n, const float* values) { return squares_loop(n, values); }

DDPM_FOR_TARGET(baseline, )
#if defined(__x86_64__)
DDPM_FOR_TARGET(avx2, [[gnu::target("avx2")]])
#endif

#if defined(__x86_64__)
#define DDPM_CALL(name, ...) \
  (__builtin_cpu_supports("avx2") != 0 ? name##_avx2(__VA_ARGS__) : name##_baseline(__VA_ARGS__))
#else
#define DDPM_CALL(name, ...) name##_baseline(__VA_ARGS__)
#endif

}  // namespace

void adamw_kernel(const AdamWScalars& s, std::size_t n, float* parameter, const float* gradient, float* exp_avg,
                  float* exp_avg_sq) {
  DDPM_CALL(adamw, s, n, parameter, gradient, exp_avg, exp_avg_sq);
}

void ema_kernel(float one_minus_decay, std::size_t n, float* average, const float* parameter) {
  DDPM_CALL(ema, one_minus_decay, n, average, parameter);
}

double squares_kernel(std::size_t n, const float* values) { return DDPM_CALL(squares, n, values); }

}  // namespace ddpm::optim
