#include "diffusion/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include "base/check.h"

namespace ddpm::diffusion {
namespace {

at::TensorOptions float32() { return at::TensorOptions(at::kFloat); }

/// Nichol & Dhariwal, "Improved Denoising Diffusion Probabilistic Models" (2021), eq. 17: ᾱ(t) = cos²((t + s)/(1 + s)
/// · π/2) with s = 0.008, β capped at 0.999. In float64, then rounded.
at::Tensor squared_cosine_betas(int64_t steps) {
  const auto alpha_bar = [](double t) {
    const double c = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2.0);
    return c * c;
  };
  std::vector<double> betas(static_cast<std::size_t>(steps));
  const auto n = static_cast<double>(steps);
  for (int64_t i = 0; i < steps; ++i) {
    const double begin = static_cast<double>(i) / n;
    const double end = static_cast<double>(i + 1) / n;
    betas[static_cast<std::size_t>(i)] = std::min(1.0 - alpha_bar(end) / alpha_bar(begin), 0.999);
  }
  return at::tensor(betas, float32());
}

/// Lin et al., "Common Diffusion Noise Schedules and Sample Steps Are Flawed" (2023), algorithm 1: √ᾱ is shifted and
/// scaled so that it ends at 0 and begins where it did.
at::Tensor rescale_to_zero_terminal_snr(const at::Tensor& betas) {
  const at::Tensor root = at::cumprod(1.0 - betas, 0).sqrt();
  const at::Tensor first = root[0];
  const at::Tensor last = root[-1];
  const at::Tensor alpha_bar = ((root - last) * (first / (first - last))).square();
  const int64_t n = betas.numel();
  const at::Tensor ratios = alpha_bar.narrow(0, 1, n - 1) / alpha_bar.narrow(0, 0, n - 1);
  return 1.0 - at::cat({alpha_bar.narrow(0, 0, 1), ratios});
}

at::Tensor unscaled_betas(const SchedulerConfig& c) {
  const int64_t n = c.num_train_timesteps;
  if (!c.trained_betas.empty()) return at::tensor(c.trained_betas, float32());
  switch (c.beta_schedule) {
    case BetaSchedule::linear:
      return at::linspace(c.beta_start, c.beta_end, n, float32());
    case BetaSchedule::scaled_linear:
      return at::linspace(std::sqrt(c.beta_start), std::sqrt(c.beta_end), n, float32()).square();
    case BetaSchedule::squaredcos_cap_v2:
      return squared_cosine_betas(n);
    case BetaSchedule::sigmoid:
      return at::sigmoid(at::linspace(-6.0, 6.0, n, float32())) * (c.beta_end - c.beta_start) + c.beta_start;
  }
  throw base::InternalError("beta schedule {}", static_cast<int>(c.beta_schedule));
}

/// `table`[t] as [N, 1, 1, 1], to multiply N images.
at::Tensor per_image(const at::Tensor& table, const at::Tensor& t) {
  return table.index_select(0, t).view({-1, 1, 1, 1});
}

/// of_x[t] · x + of_y[t] · y, image by image: the operator for all devices but GPUs.
at::Tensor blend_images(const at::Tensor& x, const at::Tensor& y, const at::Tensor& t, const at::Tensor& of_x,
                        const at::Tensor& of_y, at::ScalarType dtype) {
  return (per_image(of_x, t) * x + per_image(of_y, t) * y).to(dtype);
}

}  // namespace

at::Tensor blend(const at::Tensor& x, const at::Tensor& y, const at::Tensor& t, const at::Tensor& of_x,
                 const at::Tensor& of_y, at::ScalarType dtype) {
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::blend_images", "").typed<decltype(blend_images)>();
  return kOperator.call(x, y, t, of_x, of_y, dtype);
}

NoiseSchedule::NoiseSchedule(const SchedulerConfig& config, at::Device device) : config_(config) {
  validate(config, "");
  betas_ = unscaled_betas(config);
  if (config.rescale_betas_zero_snr) betas_ = rescale_to_zero_terminal_snr(betas_);
  alphas_cumprod_ = at::cumprod(1.0 - betas_, 0);
  const at::Tensor noise_power = 1.0 - alphas_cumprod_;
  sqrt_alphas_cumprod_ = alphas_cumprod_.sqrt().to(device);
  sqrt_one_minus_alphas_cumprod_ = noise_power.sqrt().to(device);
  minus_sqrt_one_minus_alphas_cumprod_ = -sqrt_one_minus_alphas_cumprod_;
  snr_ = (alphas_cumprod_ / noise_power).to(device);
}

float NoiseSchedule::alpha_cumprod(int64_t t) const {
  DDPM_CHECK(t >= 0 && t < num_train_timesteps(), "timestep {} of {}", t, num_train_timesteps());
  return alphas_cumprod_.const_data_ptr<float>()[t];
}

at::Tensor NoiseSchedule::add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& t,
                                    at::ScalarType dtype) const {
  return blend(x0, noise, t, sqrt_alphas_cumprod_, sqrt_one_minus_alphas_cumprod_, dtype);
}

at::Tensor NoiseSchedule::target(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& t) const {
  switch (prediction_type()) {
    case PredictionType::epsilon:
      return noise;
    case PredictionType::sample:
      return x0;
    case PredictionType::v_prediction:
      return blend(noise, x0, t, sqrt_alphas_cumprod_, minus_sqrt_one_minus_alphas_cumprod_, at::kFloat);
  }
  throw base::InternalError("prediction type {}", static_cast<int>(prediction_type()));
}

at::Tensor NoiseSchedule::snr(const at::Tensor& t) const { return snr_.index_select(0, t); }

}  // namespace ddpm::diffusion

TORCH_LIBRARY_FRAGMENT(ddpm, library) {
  // Serves every device and is differentiable, except where a device's own kernel is registered.
  library.def("blend_images(Tensor x, Tensor y, Tensor t, Tensor of_x, Tensor of_y, ScalarType dtype) -> Tensor",
              &ddpm::diffusion::blend_images);
}
