// What several samplers share: which timesteps they visit, and what a model's output says about the clean image and the
// noise. Internal to diffusion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "diffusion/formulation.h"
#include "diffusion/sampler.h"
#include "diffusion/schedule.h"

namespace ddpm::diffusion {

/// `steps` timesteps from high to low (Lin et al. 2023, table 2), rounded as diffusers rounds them. `config` holds the
/// spacing that is used. Throws base::ConfigError when one of them lies outside 0 … T-1.
std::vector<int64_t> spaced_timesteps(const SchedulerConfig& config, int64_t steps);

/// Number `i` of those that fall from `first` by `stride`, with the bits of numpy.arange(first, 0, -stride): that goes
/// on by the difference of its first two numbers, which is rounded once more than the stride. Timesteps of trailing
/// spacing are one less than it, rounded.
double falling_number(double first, double stride, int64_t i);

/// The schedule's coefficients at one timestep, float32 as in diffusers. Past the last one the image is clean.
struct NoiseLevel {
  float alpha_cumprod = 1.0F;
  [[nodiscard]] float noise_power() const { return 1.0F - alpha_cumprod; }
  [[nodiscard]] float signal() const;  ///< √ᾱ
  [[nodiscard]] float noise() const;   ///< √(1 - ᾱ)
};

/// `visited` without its first timesteps from which a step leads to one that holds no signal, either: such a step leads
/// nowhere, and divides by it. `next` is the timestep that a step from visited[i] leads to, below 0 for the clean
/// image.
std::vector<int64_t> without_empty_steps(const NoiseSchedule& schedule, std::vector<int64_t> visited,
                                         const std::function<int64_t(std::size_t i)>& next);

/// The clean image that `output` predicts of `sample` at `level`: scalings() of formulation.h at α = √ᾱ and σ = √(1 -
/// ᾱ), in the order of diffusers' operations, so that bits are diffusers'.
at::Tensor predicted_image(PredictionType type, NoiseLevel level, const at::Tensor& output, const at::Tensor& sample);
/// The noise that `output` predicts.
at::Tensor predicted_noise(PredictionType type, NoiseLevel level, const at::Tensor& output, const at::Tensor& sample);

/// Dynamic thresholding (Saharia et al., "Photorealistic Text-to-Image Diffusion Models", 2022, section 2.3), or
/// clamping, or neither, as `config` says. The quantile of thresholding is that of the values where `valid`, bool [N,
/// 1, H, W], is true; undefined: of all.
at::Tensor limit_image(const SchedulerConfig& config, const at::Tensor& image, const at::Tensor& valid = {});

/// The model's answer to `sample` at `timestep`, whose level is `level`. Where images have no values it is the one for
/// which predicted_image() is 0.
at::Tensor answer_to(const at::Tensor& sample, double timestep, PredictionType type, NoiseLevel level,
                     const ModelCall& model);

/// D(x) at `point`, limited as `config` says; 0 where images have no values.
at::Tensor denoised(const SchedulerConfig& config, const NoisePoint& point, const at::Tensor& x,
                    const ModelCall& model);

std::unique_ptr<Sampler> make_ddpm_sampler(const SchedulerConfig& config, const SamplerOptions& options);
std::unique_ptr<Sampler> make_ddim_sampler(const SchedulerConfig& config, const SamplerOptions& options);
std::unique_ptr<Sampler> make_euler_sampler(const SchedulerConfig& config, const SamplerOptions& options);
std::unique_ptr<Sampler> make_heun_sampler(const SchedulerConfig& config, const SamplerOptions& options);
std::unique_ptr<Sampler> make_multistep_sampler(const SchedulerConfig& config, const SamplerOptions& options);
std::unique_ptr<Sampler> make_singlestep_sampler(const SchedulerConfig& config, const SamplerOptions& options);
std::unique_ptr<Sampler> make_regression_sampler(const SchedulerConfig& config, const SamplerOptions& options);

}  // namespace ddpm::diffusion
