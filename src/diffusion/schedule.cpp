#include "diffusion/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include "base/check.h"

namespace ddpm::diffusion {
namespace {

// Tables are computed here, operation by operation as diffusers does, in float32 where it does. LibTorch's square root
// is MKL's, whose last bit differs between processors, and 1 - ᾱ of the first steps makes thousands of such bits.

std::vector<float> rounded(const std::vector<double>& values) { return {values.begin(), values.end()}; }

/// `count` values from `first` to `last`, each counted from the nearer end; one alone is `first`. Products are fused,
/// as PyTorch's are on all processors that can.
std::vector<float> linspace(double first, double last, int64_t count) {
  const auto begin = static_cast<float>(first);
  const auto end = static_cast<float>(last);
  if (count == 1) return {begin};
  const float step = (end - begin) / static_cast<float>(count - 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = i < count / 2 ? std::fma(step, static_cast<float>(i), begin)
                                                        : std::fma(-step, static_cast<float>(count - 1 - i), end);
  }
  return values;
}

/// ᾱ, the products of 1 - β up to each step.
std::vector<float> products_of_alphas(const std::vector<float>& betas) {
  std::vector<float> products(betas.size());
  double product = 1.0;
  for (std::size_t i = 0; i < betas.size(); ++i) products[i] = static_cast<float>(product *= 1.0F - betas[i]);
  return products;
}

/// Nichol & Dhariwal, "Improved Denoising Diffusion Probabilistic Models" (2021), eq. 17: ᾱ(t) = cos²((t + s)/(1 + s)
/// · π/2) with s = 0.008, β capped at 0.999. In float64, then rounded.
std::vector<float> squared_cosine_betas(int64_t steps) {
  const auto alpha_bar = [](double t) {
    const double c = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2.0);
    return c * c;
  };
  std::vector<float> betas(static_cast<std::size_t>(steps));
  const auto n = static_cast<double>(steps);
  for (int64_t i = 0; i < steps; ++i) {
    const double begin = static_cast<double>(i) / n;
    const double end = static_cast<double>(i + 1) / n;
    betas[static_cast<std::size_t>(i)] = static_cast<float>(std::min(1.0 - alpha_bar(end) / alpha_bar(begin), 0.999));
  }
  return betas;
}

/// Lin et al., "Common Diffusion Noise Schedules and Sample Steps Are Flawed" (2023), algorithm 1: √ᾱ is shifted and
/// scaled so that it ends at 0 and begins where it did.
std::vector<float> rescaled_to_zero_terminal_snr(const std::vector<float>& betas) {
  std::vector<float> root = products_of_alphas(betas);
  for (float& each : root) each = std::sqrt(each);
  const float last = root.back();
  const float scale = root.front() / (root.front() - last);
  std::vector<float> rescaled(betas.size());
  float before = 1.0F;
  for (std::size_t i = 0; i < betas.size(); ++i) {
    const float shifted = (root[i] - last) * scale;
    const float alpha_bar = shifted * shifted;
    rescaled[i] = 1.0F - alpha_bar / before;
    before = alpha_bar;
  }
  return rescaled;
}

std::vector<float> unscaled_betas(const SchedulerConfig& c) {
  const int64_t n = c.num_train_timesteps;
  if (!c.trained_betas.empty()) return rounded(c.trained_betas);
  std::vector<float> betas;
  switch (c.beta_schedule) {
    case BetaSchedule::linear:
      return linspace(c.beta_start, c.beta_end, n);
    case BetaSchedule::scaled_linear:
      betas = linspace(std::sqrt(c.beta_start), std::sqrt(c.beta_end), n);
      for (float& each : betas) each *= each;
      return betas;
    case BetaSchedule::squaredcos_cap_v2:
      return squared_cosine_betas(n);
    case BetaSchedule::sigmoid:
      betas = linspace(-6.0, 6.0, n);
      for (float& each : betas) {
        const float sigmoid = 1.0F / (1.0F + std::exp(-each));
        each = sigmoid * static_cast<float>(c.beta_end - c.beta_start) + static_cast<float>(c.beta_start);
      }
      return betas;
  }
  throw base::InternalError("beta schedule {}", static_cast<int>(c.beta_schedule));
}

at::Tensor table(const std::vector<float>& values, at::Device device = at::kCPU) {
  return at::tensor(values, at::TensorOptions(at::kFloat)).to(device);
}

/// f of each value.
template <typename Function>
std::vector<float> each_of(const std::vector<float>& values, const Function& f) {
  std::vector<float> results(values.size());
  std::transform(values.begin(), values.end(), results.begin(), f);
  return results;
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
  std::vector<float> betas = unscaled_betas(config);
  if (config.rescale_betas_zero_snr) betas = rescaled_to_zero_terminal_snr(betas);
  const std::vector<float> alphas_cumprod = products_of_alphas(betas);
  betas_ = table(betas);
  alphas_cumprod_ = table(alphas_cumprod);
  sqrt_alphas_cumprod_ = table(each_of(alphas_cumprod, [](float a) { return std::sqrt(a); }), device);
  sqrt_one_minus_alphas_cumprod_ = table(each_of(alphas_cumprod, [](float a) { return std::sqrt(1.0F - a); }), device);
  minus_sqrt_one_minus_alphas_cumprod_ = -sqrt_one_minus_alphas_cumprod_;
  snr_ = table(each_of(alphas_cumprod, [](float a) { return a / (1.0F - a); }), device);
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
