// Samplers, which solve the reverse process from noise to images, and the loop that drives one.
//
// A Sampler does one step, in which it calls the model once or more. It holds no model and draws no random numbers of
// its own: the loop does, per image, so that an image is the same in any batch and on any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "diffusion/noise.h"
#include "diffusion/schedule.h"

namespace ddpm::diffusion {

struct SamplerOptions {
  SamplerType scheduler = SamplerType::ddpm;
  int64_t steps = 1000;                                            ///< 1 … num_train_timesteps
  double eta = 0.0;                                                ///< ddim: 0 deterministic, 1 as much noise as ddpm
  double churn = 0.0;                                              ///< euler and heun of edm: S_churn; 0: deterministic
  std::optional<TimestepSpacing> timestep_spacing = std::nullopt;  ///< replaces the scheduler's own
  bool karras_sigmas = false;  ///< sets use_karras_sigmas, whatever the scheduler has
};

/// The network's answer, float32, at one timestep: x [N, C, H, W] is what it is shown.
struct ModelCall {
  std::function<at::Tensor(const at::Tensor& x, double timestep)> answer;
  at::Tensor valid = {};  ///< where images have values: see sample()
};

class Sampler {
 public:
  virtual ~Sampler() = default;

  /// The timestep of each step's first call of the model. Those of solvers that interpolate are fractional.
  [[nodiscard]] const std::vector<double>& timesteps() const { return timesteps_; }
  /// Standard deviation of the noise that the sampler starts from.
  [[nodiscard]] virtual double init_noise_sigma() const { return 1.0; }
  /// Whether step `index` adds fresh noise.
  [[nodiscard]] virtual bool needs_noise(std::size_t index) const = 0;
  /// The sample after step `index`; 0 begins another batch. `noise` is unit normal of the sample's shape, undefined
  /// unless needs_noise(index).
  virtual at::Tensor step(std::size_t index, const at::Tensor& sample, const at::Tensor& noise,
                          const ModelCall& model) = 0;

 protected:
  explicit Sampler(std::vector<double> timesteps) : timesteps_(std::move(timesteps)) {}

 private:
  std::vector<double> timesteps_;
};

/// The model: x float32 [N, C, H, W] and its timestep [N] (int64; float32 where it is fractional) to a prediction of
/// x's shape.
using Denoiser = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& t)>;
/// Called after each step with the number of steps done and of all.
using SampleProgress = std::function<void(std::size_t done, std::size_t total)>;

/// Where the images of a batch take their fresh noise from.
struct SampleNoise {
  uint64_t seed = 0;
  uint64_t first_image = 0;                        ///< index in the sample job of the first image of the batch
  std::optional<ImageShape> shape = std::nullopt;  ///< image size; unset: that of the noise that they start from
};

/// Runs `sampler` on unit normal `noise` [N, C, H, W] (see initial_noise; on the model's device) and returns the
/// images, neither clamped nor rescaled. Fresh noise of step i and image n is a pure function of (fresh.seed, i,
/// fresh.first_image + n). Records no gradients. `valid`, bool [N, 1, H, W], is false where images have no value, and
/// training has shown 0 and noise: the denoised image is 0 there at each step, whatever the model answers. Undefined:
/// they have values everywhere.
at::Tensor sample(Sampler& sampler, const SampleNoise& fresh, const at::Tensor& noise, const Denoiser& denoise,
                  const SampleProgress& progress = {}, const at::Tensor& valid = {});

}  // namespace ddpm::diffusion
