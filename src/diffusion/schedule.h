// The forward process: how much signal and noise a timestep holds, and what the model is asked to predict.
//
// Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic Models" (2020), eq. 4: x_t = √ᾱ_t x_0 + √(1-ᾱ_t) ε;
// v = √ᾱ_t ε - √(1-ᾱ_t) x_0: Salimans & Ho, "Progressive Distillation" (2022), appendix D. Both are blends of images by
// factors of a table at t: the operator ddpm::blend_images, one pass on GPUs, which have the CPU's bits.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "diffusion/config.h"

namespace ddpm::diffusion {

class NoiseSchedule {
 public:
  /// Betas are computed as diffusers does, in float32 where it does, but each operation is rounded by itself, so that
  /// they are the same on every processor: diffusers takes MKL's square root, whose last bit is another on some. Images
  /// and timesteps that come later live on `device`. Throws base::ConfigError for a wrong number of trained_betas.
  explicit NoiseSchedule(const SchedulerConfig& config, at::Device device = at::kCPU);

  [[nodiscard]] const SchedulerConfig& config() const { return config_; }
  [[nodiscard]] PredictionType prediction_type() const { return config_.prediction_type; }
  [[nodiscard]] int64_t num_train_timesteps() const { return config_.num_train_timesteps; }

  /// β, float32 [T], on the CPU.
  [[nodiscard]] const at::Tensor& betas() const { return betas_; }
  /// ᾱ, float32 [T], on the CPU.
  [[nodiscard]] const at::Tensor& alphas_cumprod() const { return alphas_cumprod_; }
  /// ᾱ of one timestep, 0 ≤ t < T.
  [[nodiscard]] float alpha_cumprod(int64_t t) const;

  /// x_t of images `x0` [N, C, H, W], rounded to `dtype`; `noise` has the shape of `x0`; `t` is int64 [N].
  [[nodiscard]] at::Tensor add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& t,
                                     at::ScalarType dtype = at::kFloat) const;
  /// What the model should predict: ε, x_0 or v.
  [[nodiscard]] at::Tensor target(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& t) const;
  /// ᾱ_t / (1 - ᾱ_t), float32 [N].
  [[nodiscard]] at::Tensor snr(const at::Tensor& t) const;

 private:
  SchedulerConfig config_;
  at::Tensor betas_;
  at::Tensor alphas_cumprod_;
  // Tables on the device of the images.
  at::Tensor sqrt_alphas_cumprod_;
  at::Tensor sqrt_one_minus_alphas_cumprod_;
  at::Tensor minus_sqrt_one_minus_alphas_cumprod_;
  at::Tensor snr_;
};

/// of_x[t] · x + of_y[t] · y of images x and y [N, C, H, W], rounded to `dtype`; t is int64 [N], of_x and of_y float32.
at::Tensor blend(const at::Tensor& x, const at::Tensor& y, const at::Tensor& t, const at::Tensor& of_x,
                 const at::Tensor& of_y, at::ScalarType dtype);

}  // namespace ddpm::diffusion
