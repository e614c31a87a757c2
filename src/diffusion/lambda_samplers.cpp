// dpmsolver++: Lu et al., "DPM-Solver++: Fast Solver for Guided Sampling of Diffusion Probabilistic Models", 2022.
// Exponential integrators in λ = ln(α/σ) that take the prediction D of the image for constant (first order) or linear
// (second order). dpmsolver++ is the multistep solver 2M (algorithm 2), which keeps the last step's D; dpmsolver++2s is
// the singlestep solver 2S (algorithm 1), where every second call of the model looks ahead. The operations are those of
// diffusers' DPMSolverMultistepScheduler and DPMSolverSinglestepScheduler, where each step calls the model once. They
// are done in float64: thousands of steps add up, and edm's first samples are far larger than an image.
#include <cmath>

#include <ATen/Tensor.h>
#include <ATen/TensorOperators.h>

#include "diffusion/noise_grid.h"
#include "diffusion/sampler_formulas.h"

namespace ddpm::diffusion {
namespace {

double lambda_of(const NoisePoint& point) { return std::log(point.alpha / point.sigma); }

/// e^-h of a step from `from` to `to`, h = λ_to - λ_from; finite where a λ is not.
double decay(const NoisePoint& from, const NoisePoint& to) { return (from.alpha * to.sigma) / (from.sigma * to.alpha); }

/// Eq. 9 (first order): x_t = σ_t/σ_s x - α_t (e^-h - 1) D.
at::Tensor first_order(const NoisePoint& from, const NoisePoint& to, const at::Tensor& x, const at::Tensor& image) {
  return x * (to.sigma / from.sigma) + image * (to.alpha * (1.0 - decay(from, to)));
}

/// Second order: `slope` is the change of D over the whole step. midpoint: eq. 12 and 13; heun integrates it exactly.
at::Tensor second_order(SolverType type, const NoisePoint& from, const NoisePoint& to, const at::Tensor& x,
                        const at::Tensor& image, const at::Tensor& slope) {
  const double gained = 1.0 - decay(from, to);
  const double h = lambda_of(to) - lambda_of(from);
  const double of_slope = type == SolverType::heun ? 1.0 - gained / h : 0.5 * gained;
  return first_order(from, to, x, image) + slope * (to.alpha * of_slope);
}

class LambdaSampler : public Sampler {
 public:
  LambdaSampler(const SchedulerConfig& config, NoiseGrid grid)
      : Sampler(grid.timesteps()), config_(config), grid_(std::move(grid)) {}

  [[nodiscard]] double init_noise_sigma() const override { return grid_.start; }
  [[nodiscard]] bool needs_noise(std::size_t) const override { return false; }

 protected:
  [[nodiscard]] const SchedulerConfig& config() const { return config_; }
  [[nodiscard]] const NoisePoint& point(std::size_t i) const { return grid_.points[i]; }
  [[nodiscard]] std::size_t steps() const { return grid_.points.size() - 1; }

 private:
  SchedulerConfig config_;
  NoiseGrid grid_;
};

class MultistepSampler : public LambdaSampler {
 public:
  using LambdaSampler::LambdaSampler;

  at::Tensor step(std::size_t index, const at::Tensor& given, const at::Tensor& /*noise*/,
                  const ModelCall& model) override {
    const at::Tensor sample = given.to(at::kDouble);
    const at::Tensor before = before_;
    const at::Tensor image = denoised(config(), point(index), sample, model);
    before_ = image;
    if (is_first_order(index)) return first_order(point(index), point(index + 1), sample, image);
    const double h = lambda_of(point(index + 1)) - lambda_of(point(index));
    const double h_before = lambda_of(point(index)) - lambda_of(point(index - 1));
    return second_order(config().solver.solver_type, point(index), point(index + 1), sample, image,
                        (image - before) * (h / h_before));
  }

 private:
  [[nodiscard]] bool is_first_order(std::size_t index) const {
    const SolverConfig& c = config().solver;
    if (index == 0 || c.solver_order == 1) return true;
    const bool few = c.lower_order_final && steps() < 15;
    return index + 1 == steps() && (few || c.euler_at_final || point(index + 1).sigma == 0.0);
  }

  at::Tensor before_;  // D of the last step
};

class SinglestepSampler : public LambdaSampler {
 public:
  using LambdaSampler::LambdaSampler;

  at::Tensor step(std::size_t index, const at::Tensor& given, const at::Tensor& /*noise*/,
                  const ModelCall& model) override {
    const at::Tensor sample = given.to(at::kDouble);
    const at::Tensor image = denoised(config(), point(index), sample, model);
    at::Tensor next = is_first_order(index)
                          ? first_order(point(index), point(index + 1), sample, image)
                          : second_order(config().solver.solver_type, point(index - 1), point(index + 1), begin_,
                                         begin_image_, slope_of(index, image));
    if (is_first_order(index)) {
      begin_ = sample;
      begin_image_ = image;
    }
    return next;
  }

 private:
  /// Steps come in pairs from the same sample: one of first order, then one of second order over the length of both.
  /// The last step is of first order, and with lower_order_final and an even number of steps the one before it, too.
  [[nodiscard]] bool is_first_order(std::size_t index) const {
    const SolverConfig& c = config().solver;
    if (index % 2 == 0 || c.solver_order == 1) return true;
    const bool ends_low = c.lower_order_final || steps() % 2 == 1 || point(steps()).sigma == 0.0;
    return ends_low && index + 1 == steps();
  }

  [[nodiscard]] at::Tensor slope_of(std::size_t index, const at::Tensor& image) const {
    const double h = lambda_of(point(index + 1)) - lambda_of(point(index - 1));
    const double h_half = lambda_of(point(index)) - lambda_of(point(index - 1));
    return (image - begin_image_) * (h / h_half);
  }

  at::Tensor begin_;        // the sample from which a pair of steps starts
  at::Tensor begin_image_;  // D there
};

}  // namespace

std::unique_ptr<Sampler> make_multistep_sampler(const SchedulerConfig& config, const SamplerOptions& options) {
  return std::make_unique<MultistepSampler>(config, lambda_grid(config, options.steps, options.scheduler));
}

std::unique_ptr<Sampler> make_singlestep_sampler(const SchedulerConfig& config, const SamplerOptions& options) {
  return std::make_unique<SinglestepSampler>(config, lambda_grid(config, options.steps, options.scheduler));
}

}  // namespace ddpm::diffusion
