// Song, Meng, Ermon, "Denoising Diffusion Implicit Models" (2021), eq. 12 and 16, with the operations of diffusers'
// DDIMScheduler.step.
#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>

#include "diffusion/sampler_formulas.h"

namespace ddpm::diffusion {
namespace {

class DdimSampler : public Sampler {
 public:
  DdimSampler(const NoiseSchedule& schedule, const std::vector<int64_t>& visited, double eta, int64_t stride)
      : Sampler({visited.begin(), visited.end()}),
        schedule_(schedule),
        visited_(visited),
        eta_(static_cast<float>(eta)),
        stride_(stride) {}

  [[nodiscard]] bool needs_noise(std::size_t) const override { return eta_ > 0.0F; }

  at::Tensor step(std::size_t index, const at::Tensor& sample, const at::Tensor& noise,
                  const ModelCall& model) override {
    const PredictionType type = schedule_.prediction_type();
    const NoiseLevel now{schedule_.alpha_cumprod(visited_[index])};
    const at::Tensor model_output = answer_to(sample, timesteps()[index], type, now, model);
    const NoiseLevel next = next_level(index);
    const at::Tensor image =
        limit_image(schedule_.config(), predicted_image(type, now, model_output, sample), model.valid);
    const float sigma = deviation(now, next);
    const float direction = std::sqrt(std::max(next.noise_power() - sigma * sigma, 0.0F));
    const at::Tensor mean = image * next.signal() + predicted_noise(type, now, model_output, sample) * direction;
    return needs_noise(index) ? mean + noise * sigma : mean;
  }

 private:
  // One stride below, which is not always the next timestep visited: linspace and trailing spacings round.
  [[nodiscard]] NoiseLevel next_level(std::size_t index) const {
    const int64_t t = visited_[index] - stride_;
    if (t >= 0) return {schedule_.alpha_cumprod(t)};
    return schedule_.config().solver.set_alpha_to_one ? NoiseLevel{} : NoiseLevel{schedule_.alpha_cumprod(0)};
  }

  [[nodiscard]] float deviation(NoiseLevel now, NoiseLevel next) const {
    const float variance = next.noise_power() / now.noise_power() * (1.0F - now.alpha_cumprod / next.alpha_cumprod);
    return eta_ * std::sqrt(variance);
  }

  NoiseSchedule schedule_;
  std::vector<int64_t> visited_;
  float eta_;
  int64_t stride_;
};

}  // namespace

std::unique_ptr<Sampler> make_ddim_sampler(const SchedulerConfig& config, const SamplerOptions& options) {
  const NoiseSchedule schedule(config);
  const std::vector<int64_t> spaced = spaced_timesteps(config, options.steps);
  const int64_t stride = config.num_train_timesteps / options.steps;
  const auto next = [&](std::size_t i) { return spaced[i] - stride; };
  return std::make_unique<DdimSampler>(schedule, without_empty_steps(schedule, spaced, next), options.eta, stride);
}

}  // namespace ddpm::diffusion
