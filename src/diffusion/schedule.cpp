#include "diffusion/schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include "base/check.h"
#include "base/error.h"
#include "diffusion/betas.h"
#include "diffusion/validate.h"

namespace ddpm::diffusion {
namespace {

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
  const std::vector<float> betas = betas_of(config);
  const std::vector<float> alphas_cumprod = alphas_cumprod_of(betas);
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
