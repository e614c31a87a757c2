#include "diffusion/sampler.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include "base/check.h"

namespace ddpm::diffusion {
namespace {

at::Tensor timestep_tensor(double timestep, const at::Tensor& x) {
  const bool whole = timestep == std::floor(timestep);
  return at::full({x.size(0)}, timestep, x.options().dtype(whole ? at::kLong : at::kFloat));
}

}  // namespace

at::Tensor sample(Sampler& sampler, const SampleNoise& fresh, const at::Tensor& noise, const Denoiser& denoise,
                  const SampleProgress& progress, const at::Tensor& valid) {
  const at::NoGradGuard no_grad;
  DDPM_CHECK(noise.dim() == 4, "initial noise of {} axes", noise.dim());
  const ImageShape shape =
      fresh.shape.value_or(ImageShape{.channels = noise.size(1), .height = noise.size(2), .width = noise.size(3)});
  at::Tensor x = noise.to(at::kFloat) * sampler.init_noise_sigma();
  const std::size_t steps = sampler.timesteps().size();
  const ModelCall model{
      .answer = [&](const at::Tensor& input,
                    double timestep) { return denoise(input, timestep_tensor(timestep, input)).to(at::kFloat); },
      .valid = valid};
  for (std::size_t i = 0; i < steps; ++i) {
    at::Tensor added;
    if (sampler.needs_noise(i)) {
      added = image_normals(fresh.seed, base::Stream::sample_step, i, fresh.first_image, x.size(0), shape, x.device());
    }
    x = sampler.step(i, x, added, model);
    if (progress) progress(i + 1, steps);
  }
  return x.to(at::kFloat);
}

}  // namespace ddpm::diffusion
