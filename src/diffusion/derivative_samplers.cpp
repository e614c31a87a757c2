// euler and heun: steps along dx/dσ = (x - D(x; σ)) / σ.
//
// Karras et al. 2022, algorithm 1 (heun), its first half (euler), and algorithm 2 (churn: each step first adds noise).
// For ddpm the operations of diffusers' EulerDiscreteScheduler and HeunDiscreteScheduler, and for flow of
// FlowMatchEulerDiscreteScheduler: there dx/dt = ε - y = (x - D) / t.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/Tensor.h>
#include <ATen/TensorOperators.h>

#include "diffusion/noise_grid.h"
#include "diffusion/sampler_formulas.h"

namespace ddpm::diffusion {
namespace {

class DerivativeSampler : public Sampler {
 public:
  DerivativeSampler(const SchedulerConfig& config, NoiseGrid grid, double churn, bool second_order)
      : Sampler(grid.timesteps()),
        config_(config),
        grid_(std::move(grid)),
        gamma_(std::min(churn / static_cast<double>(timesteps().size()), std::numbers::sqrt2 - 1.0)),
        second_order_(second_order) {}

  [[nodiscard]] double init_noise_sigma() const override { return grid_.start; }
  [[nodiscard]] bool needs_noise(std::size_t) const override { return gamma_ > 0.0; }

  at::Tensor step(std::size_t index, const at::Tensor& sample, const at::Tensor& noise,
                  const ModelCall& model) override {
    const NoisePoint& next = grid_.points[index + 1];
    NoisePoint now = grid_.points[index];
    // In float64: where noise is many thousand times an image, as at the end of cosine schedules, float32 loses it.
    at::Tensor x = sample.to(at::kDouble);
    if (gamma_ > 0.0) {
      const double before = now.sigma;
      now = {.timestep = c_noise((1.0 + gamma_) * before), .alpha = 1.0, .sigma = (1.0 + gamma_) * before};
      x = x + noise * std::sqrt(now.sigma * now.sigma - before * before);
    }
    const double length = next.sigma - now.sigma;
    const at::Tensor slope = slope_at(now, x, model);
    at::Tensor reached = x + slope * length;
    if (!second_order_ || next.sigma == 0.0 || index + 2 == grid_.points.size()) return reached;
    return x + (slope + slope_at(next, reached, model)) * (0.5 * length);
  }

 private:
  [[nodiscard]] at::Tensor slope_at(const NoisePoint& point, const at::Tensor& x, const ModelCall& model) const {
    return (x - denoised(config_, point, x, model)) / point.sigma;
  }

  SchedulerConfig config_;
  NoiseGrid grid_;
  double gamma_;
  bool second_order_;
};

}  // namespace

std::unique_ptr<Sampler> make_euler_sampler(const SchedulerConfig& config, const SamplerOptions& options) {
  return std::make_unique<DerivativeSampler>(config, derivative_grid(config, options.steps), options.churn, false);
}

std::unique_ptr<Sampler> make_heun_sampler(const SchedulerConfig& config, const SamplerOptions& options) {
  return std::make_unique<DerivativeSampler>(config, derivative_grid(config, options.steps), options.churn, true);
}

}  // namespace ddpm::diffusion
