// The noise levels that solvers visit, from pure noise to an image. Internal to diffusion.
#pragma once

#include <cstdint>
#include <vector>

#include "diffusion/config.h"
#include "diffusion/formulation.h"

namespace ddpm::diffusion {

/// The points of `steps` steps, steps + 1 of them; at the last one the model is not called. Where several of ddpm's
/// hold no signal, all but the last of these are left out, so that there are fewer steps.
struct NoiseGrid {
  std::vector<NoisePoint> points;
  double start = 1.0;  ///< deviation of the noise that sampling starts from
  /// The timesteps of all points but the last.
  [[nodiscard]] std::vector<double> timesteps() const;
};

/// The grid of euler and heun, on which dx/dσ = (x - D) / σ. ddpm's images are x / √ᾱ there, so that α = 1 and σ =
/// √(1/ᾱ - 1), at timesteps that may be fractional: diffusers' EulerDiscreteScheduler. edm: α = 1, levels of Karras et
/// al. 2022, eq. 5: EDMEulerScheduler. flow: α = 1 - t, σ = t: FlowMatchEulerDiscreteScheduler.
NoiseGrid derivative_grid(const SchedulerConfig& c, int64_t steps);

/// The grid of dpmsolver++, which steps in λ = ln(α/σ). ddpm's points have α² + σ² = 1, at whole timesteps, one of
/// steps + 1 being left out: DPMSolverMultistepScheduler. edm: as above. flow begins at t = 1 - 1/T, since λ is
/// infinite at 1: DPMSolverMultistepScheduler with use_flow_sigmas. `solver` is one of both, whose classes in diffusers
/// round Karras' levels of cosine schedules to different timesteps.
NoiseGrid lambda_grid(const SchedulerConfig& c, int64_t steps, SamplerType solver);

}  // namespace ddpm::diffusion
