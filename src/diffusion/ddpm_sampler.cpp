// Ancestral sampling: Ho, Jain, Abbeel (2020), algorithm 2, with the posterior of eq. 6 and 7 and the operations of
// diffusers' DDPMScheduler.step.
#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>

#include "base/error.h"
#include "diffusion/sampler_formulas.h"

namespace ddpm::diffusion {
namespace {

class DdpmSampler : public Sampler {
 public:
  DdpmSampler(const NoiseSchedule& schedule, const std::vector<int64_t>& visited)
      : Sampler({visited.begin(), visited.end()}), schedule_(schedule), visited_(visited) {}

  // Only timestep 0 leads to the clean image without noise, as in diffusers, even where a spacing stops above 0.
  [[nodiscard]] bool needs_noise(std::size_t index) const override { return visited_[index] > 0; }

  at::Tensor step(std::size_t index, const at::Tensor& sample, const at::Tensor& noise,
                  const ModelCall& model) override {
    const NoiseLevel now = level(index);
    const at::Tensor model_output = answer_to(sample, timesteps()[index], schedule_.prediction_type(), now, model);
    const NoiseLevel next = level(index + 1);
    const float current_alpha = now.alpha_cumprod / next.alpha_cumprod;
    const float current_beta = 1.0F - current_alpha;
    const at::Tensor image = limit_image(
        schedule_.config(), predicted_image(schedule_.prediction_type(), now, model_output, sample), model.valid);
    const float image_coefficient = next.signal() * current_beta / now.noise_power();
    const float sample_coefficient = std::sqrt(current_alpha) * next.noise_power() / now.noise_power();
    const at::Tensor mean = image * image_coefficient + sample * sample_coefficient;
    return needs_noise(index) ? mean + noise * deviation(now, next, current_beta) : mean;
  }

 private:
  [[nodiscard]] NoiseLevel level(std::size_t index) const {
    return index < visited_.size() ? NoiseLevel{schedule_.alpha_cumprod(visited_[index])} : NoiseLevel{};
  }

  // The variants named "log" take the same variance through its logarithm. (diffusers takes the root of
  // fixed_large_log's logarithm, which is not a number.)
  [[nodiscard]] float deviation(NoiseLevel now, NoiseLevel next, float current_beta) const {
    switch (schedule_.config().variance_type) {
      case VarianceType::fixed_large:
      case VarianceType::fixed_large_log:
        return std::sqrt(current_beta);
      case VarianceType::fixed_small:
      case VarianceType::fixed_small_log:
        return std::sqrt(std::max(next.noise_power() / now.noise_power() * current_beta, 1e-20F));
    }
    throw base::InternalError("variance type {}", static_cast<int>(schedule_.config().variance_type));
  }

  NoiseSchedule schedule_;
  std::vector<int64_t> visited_;
};

}  // namespace

std::unique_ptr<Sampler> make_ddpm_sampler(const SchedulerConfig& config, const SamplerOptions& options) {
  const NoiseSchedule schedule(config);
  const std::vector<int64_t> spaced = spaced_timesteps(config, options.steps);
  const auto next = [&](std::size_t i) { return i + 1 < spaced.size() ? spaced[i + 1] : int64_t{-1}; };
  return std::make_unique<DdpmSampler>(schedule, without_empty_steps(schedule, spaced, next));
}

}  // namespace ddpm::diffusion
