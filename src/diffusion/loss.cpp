#include "diffusion/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"

namespace ddpm::diffusion {

namespace {

/// Squared errors [N, C, H, W], 0 where pixels are not valid.
at::Tensor squared_errors(const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& valid) {
  DDPM_CHECK(prediction.dim() == 4 && prediction.sizes() == target.sizes(), "a prediction of {} axes, a target of {}",
             prediction.dim(), target.dim());
  at::Tensor errors = at::mse_loss(prediction.to(at::kFloat), target.to(at::kFloat), at::Reduction::None);
  if (!valid.defined()) return errors;
  // Chosen, not multiplied: 0 · NaN is NaN.
  return at::where(valid, errors, at::zeros({}, errors.options()));
}

}  // namespace

at::Tensor per_sample_loss(const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& valid,
                           const at::Tensor& pixels) {
  const at::Tensor errors = squared_errors(prediction, target, valid);
  if (pixels.defined()) return errors.sum({1, 2, 3}) / (pixels * errors.size(1)).clamp_min(1);
  if (!valid.defined()) return errors.mean({1, 2, 3});
  return errors.sum({1, 2, 3}) / (valid.sum({1, 2, 3}) * errors.size(1)).clamp_min(1);
}

at::Tensor per_channel_loss(const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& valid,
                            const at::Tensor& pixels) {
  const at::Tensor errors = squared_errors(prediction, target, valid);
  if (pixels.defined()) return errors.sum({2, 3}) / pixels.unsqueeze(1).clamp_min(1);
  if (!valid.defined()) return errors.mean({2, 3});
  return errors.sum({2, 3}) / valid.sum({2, 3}).clamp_min(1);
}

at::Tensor loss_weight(const NoiseSchedule& schedule, double snr_gamma, const at::Tensor& t) {
  if (snr_gamma == 0.0) return at::ones(t.sizes(), t.options().dtype(at::kFloat));
  const at::Tensor snr = schedule.snr(t);
  switch (schedule.prediction_type()) {
    case PredictionType::epsilon:
      return (snr_gamma / snr).clamp_max(1.0);  // 1 where no signal is left
    case PredictionType::sample:
      return snr.clamp_max(snr_gamma);
    case PredictionType::v_prediction:
      return snr.clamp_max(snr_gamma) / (snr + 1.0);
  }
  throw base::InternalError("prediction type {}", static_cast<int>(schedule.prediction_type()));
}

bool leaves_out_last_timestep(const DiffusionConfig& config) {
  if (config.scheduler.formulation != Formulation::ddpm || config.snr_gamma == 0.0) return false;
  const NoiseSchedule schedule(config.scheduler);
  const at::Tensor last = at::full({1}, schedule.num_train_timesteps() - 1, at::TensorOptions(at::kLong));
  return loss_weight(schedule, config.snr_gamma, last).item<float>() == 0.0F;
}

}  // namespace ddpm::diffusion
