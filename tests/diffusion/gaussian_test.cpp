// Exact mathematics, without a peer: pixels of normal values, each with a variance of its own. The best denoiser, the
// floor of the loss and what a sampler should make of its noise are then closed forms.
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "diffusion/formulation.h"
#include "diffusion/noise_grid.h"
#include "diffusion/samplers.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::DiffusionConfig;
using diffusion::Formulation;
using diffusion::NoiseGrid;
using diffusion::NoisePoint;
using diffusion::PredictionType;
using diffusion::SamplerType;
using diffusion::SchedulerConfig;

constexpr double kDeviation = 0.5;  // sigma_data

/// Variances of the pixels.
at::Tensor variances() { return at::tensor(std::vector<double>{0.1, 0.25, 0.5, 1.0}).view({1, 1, 2, 2}); }

std::vector<SchedulerConfig> schedulers() {
  std::vector<SchedulerConfig> all;
  for (const auto type : {PredictionType::epsilon, PredictionType::sample, PredictionType::v_prediction}) {
    SchedulerConfig c;
    c.prediction_type = type;
    c.clip_sample = false;
    all.push_back(c);
  }
  SchedulerConfig edm;
  edm.formulation = Formulation::edm;
  edm.sigma_data = kDeviation;
  all.push_back(edm);
  SchedulerConfig flow;
  flow.formulation = Formulation::flow;
  all.push_back(flow);
  return all;
}

std::string name_of(const SchedulerConfig& c) {
  return std::string(base::name_of(c.formulation)) + " " + std::string(base::name_of(c.prediction_type));
}

/// The best F of data with these variances: F = (D - skip x) / out with D = E[y | x] = α v x / (α² v + σ²).
at::Tensor best_answer(const SchedulerConfig& c, const NoisePoint& p, const at::Tensor& shown) {
  const diffusion::Scalings s = diffusion::scalings(c, p);
  const at::Tensor x = shown.to(at::kDouble) / s.in;
  const at::Tensor v = variances();
  const at::Tensor image = x * p.alpha * v / (v * (p.alpha * p.alpha) + p.sigma * p.sigma);
  return ((image - x * s.skip) / s.out).to(at::kFloat);
}

/// The point of the first image of `random`.
NoisePoint point_of(const SchedulerConfig& c, const diffusion::ForwardProcess& process,
                    const diffusion::TrainingNoise& random) {
  if (c.formulation == Formulation::ddpm) {
    const double power = process.schedule().alpha_cumprod(random.timesteps[0].item<int64_t>());
    return {.alpha = std::sqrt(power), .sigma = std::sqrt(1.0 - power)};
  }
  const double level = random.levels[0].item<double>();
  if (c.formulation == Formulation::edm) return {.alpha = 1.0, .sigma = level};
  return {.alpha = 1.0 - level, .sigma = level};
}

/// The mean of the squared error of the best F, which no network is below.
at::Tensor floor_of(const SchedulerConfig& c, const NoisePoint& p) {
  const at::Tensor v = variances();
  const double a = p.alpha * p.alpha;
  const double s = p.sigma * p.sigma;
  at::Tensor of_image = v * s / (v * a + s);  // of y given x
  if (c.formulation == Formulation::edm)
    return of_image * (s + kDeviation * kDeviation) / (s * kDeviation * kDeviation);
  if (c.formulation == Formulation::flow) return of_image / s;
  switch (c.prediction_type) {
    case PredictionType::epsilon:
      return of_image * a / s;
    case PredictionType::sample:
      return of_image;
    case PredictionType::v_prediction:
      return of_image / s;
  }
  return {};
}

/// What is shown and asked are linear in image and noise, so the mean over both follows from the answer to each alone.
TEST(Gaussian, TheLossOfTheBestNetworkIsItsFloor) {
  for (const SchedulerConfig& scheduler : schedulers()) {
    DiffusionConfig config;
    config.scheduler = scheduler;
    const diffusion::ForwardProcess process(config);
    for (uint64_t step = 0; step < 40; ++step) {
      auto random = diffusion::make_noise(config, 3, diffusion::step_tensor(step, at::kCPU), 0, 1, {1, 2, 2});
      const NoisePoint p = point_of(scheduler, process, random);
      SCOPED_TRACE(name_of(scheduler) + " at " + std::to_string(p.alpha) + ", " + std::to_string(p.sigma));
      const auto error_of = [&](double image, double noise) {
        const at::Tensor y = at::full({1, 1, 2, 2}, image, at::kFloat);
        random.noise = at::full({1, 1, 2, 2}, noise, at::kFloat);
        return (process.asked(y, random) - best_answer(scheduler, p, process.shown(y, random))).to(at::kDouble);
      };
      const at::Tensor loss = variances() * error_of(1.0, 0.0).square() + error_of(0.0, 1.0).square();
      const at::Tensor floor = floor_of(scheduler, p);
      EXPECT_LT(((loss - floor).abs() / floor).max().item<double>(), 1e-3) << loss << floor;
    }
  }
}

/// The loss of F = 0 is 1 in the mean, at every noise level, where the data have the deviation sigma_data.
TEST(Gaussian, AnEdmNetworkThatAnswersNothingHasLossOne) {
  DiffusionConfig config;
  config.scheduler.formulation = Formulation::edm;
  config.scheduler.sigma_data = 0.7;
  const diffusion::ForwardProcess process(config);
  auto random = diffusion::make_noise(config, 1, diffusion::step_tensor(0, at::kCPU), 0, 100, {1, 1, 1});
  const at::Tensor zero = at::zeros({100, 1, 1, 1});
  const at::Tensor one = at::ones({100, 1, 1, 1});
  random.noise = zero;
  const at::Tensor of_image = process.asked(one, random).to(at::kDouble).square() * (0.7 * 0.7);
  random.noise = one;
  const at::Tensor of_noise = process.asked(zero, random).to(at::kDouble).square();
  EXPECT_LT(((of_image + of_noise).flatten() * process.weight(random) - 1.0).abs().max().item<double>(), 1e-6);
}

NoiseGrid grid_of(const SchedulerConfig& c, SamplerType sampler, int64_t steps) {
  return is_dpmsolver(sampler) ? diffusion::lambda_grid(c, steps, sampler) : diffusion::derivative_grid(c, steps);
}

/// The points of the model's calls: of ddim from the schedule, of solvers from their grid, along which they go.
class Points {
 public:
  Points(const SchedulerConfig& c, SamplerType sampler, int64_t steps) : schedule_(c) {
    if (sampler != SamplerType::ddim) grid_ = grid_of(c, sampler, steps);
  }
  /// The point of the last call or the one after it, whichever is nearer to the timestep; two may be rounded to one.
  [[nodiscard]] NoisePoint next(double timestep) {
    if (grid_.points.empty()) return scheduled(timestep);
    const auto distance = [&](std::size_t i) { return std::abs(grid_.points.at(i).timestep - timestep); };
    if (called_ && grid_.points.at(at_ + 1).sigma > 0.0 && distance(at_ + 1) <= distance(at_)) ++at_;
    called_ = true;
    return grid_.points.at(at_);
  }
  [[nodiscard]] NoisePoint first(double timestep) const {
    return grid_.points.empty() ? scheduled(timestep) : grid_.points.front();
  }

 private:
  [[nodiscard]] NoisePoint scheduled(double timestep) const {
    const double power = schedule_.alpha_cumprod(std::llround(timestep));
    return {.alpha = std::sqrt(power), .sigma = std::sqrt(1.0 - power)};
  }

  diffusion::NoiseSchedule schedule_;
  NoiseGrid grid_;
  std::size_t at_ = 0;
  bool called_ = false;
};

/// What the sampler makes of noise 1 in each pixel, over what the exact solution of the probability flow makes of it:
/// x at its start times √(v / (α² v + σ²)).
at::Tensor ratio(const SchedulerConfig& c, SamplerType type, int64_t steps) {
  const auto sampler = diffusion::make_sampler(c, {.scheduler = type, .steps = steps});
  Points points(c, type, steps);
  const at::Tensor seen =
      diffusion::sample(*sampler, {}, at::ones({1, 1, 2, 2}), [&](const at::Tensor& shown, const at::Tensor& t) {
        return best_answer(c, points.next(t[0].item<double>()), shown);
      });
  const NoisePoint begin = points.first(sampler->timesteps().front());
  const at::Tensor v = variances();
  const at::Tensor exact = (v / (v * (begin.alpha * begin.alpha) + begin.sigma * begin.sigma)).sqrt();
  return seen.to(at::kDouble) / (exact * sampler->init_noise_sigma());
}

double error(const SchedulerConfig& c, SamplerType type, int64_t steps) {
  return (ratio(c, type, steps) - 1.0).abs().max().item<double>();
}

/// Lets the schedule have many steps that are smooth: a last step from a level that is far from none, and timesteps
/// that are whole, would hide the order.
void refine(SchedulerConfig& c, bool second_order) {
  c.num_train_timesteps = 100000;
  c.sigma_min = 1e-4;
  if (c.formulation != Formulation::ddpm) return;
  c.beta_start = 1e-6;
  c.beta_end = 2e-4;
  c.timestep_spacing = second_order ? diffusion::TimestepSpacing::linspace : diffusion::TimestepSpacing::trailing;
  c.solver.use_karras_sigmas = second_order;
}

struct Solver {
  SamplerType type;
  double order;
  std::vector<std::string> formulations;
};

class Solvers : public testing::TestWithParam<Solver> {};

TEST_P(Solvers, MakeTheSpectrumOfTheDataWithTheirOrder) {
  for (SchedulerConfig c : schedulers()) {
    const Solver& solver = GetParam();
    const std::string formulation(base::name_of(c.formulation));
    if (std::ranges::find(solver.formulations, formulation) == solver.formulations.end()) continue;
    SCOPED_TRACE(std::string(base::name_of(solver.type)) + " " + name_of(c));
    const bool second_order = solver.order == 2.0;
    refine(c, second_order);
    // Flow's λ = ln((1 - t) / t) goes to infinity at t = 0, where an even step h of t is one of h / t in λ and adds an
    // error of h³ / t. All of them together are h² ln(1 / h).
    const bool uneven = is_dpmsolver(solver.type) && formulation == "flow";
    const int64_t steps = uneven ? 3200 : 200;
    const double logarithms = std::log(2.0 * static_cast<double>(steps)) / std::log(static_cast<double>(steps));
    const double coarse = error(c, solver.type, steps);
    const double fine = error(c, solver.type, 2 * steps);
    EXPECT_NEAR(std::log2(coarse / fine), solver.order - (uneven ? std::log2(logarithms) : 0.0), 0.1)
        << coarse << " with " << steps << " steps, then " << fine;
    const int64_t many = second_order ? 400 : 20000;
    EXPECT_LT(error(c, solver.type, many), 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Solvers,
                         testing::Values(Solver{SamplerType::ddim, 1.0, {"ddpm"}},
                                         Solver{SamplerType::euler, 1.0, {"edm", "flow", "ddpm"}},
                                         Solver{SamplerType::heun, 2.0, {"edm", "flow", "ddpm"}},
                                         Solver{SamplerType::dpmsolver_pp, 2.0, {"edm", "flow", "ddpm"}},
                                         Solver{SamplerType::dpmsolver_pp_2s, 2.0, {"edm", "flow", "ddpm"}}),
                         [](const auto& solver) {
                           std::string name(base::name_of(solver.param.type));
                           std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                           return name;
                         });

/// The point that a call of the model is at. Samplers that add noise may call it between the points of their grid.
NoisePoint point_at(const SchedulerConfig& c, const diffusion::NoiseSchedule& schedule, double timestep) {
  if (c.formulation == Formulation::edm) return {.alpha = 1.0, .sigma = std::exp(4.0 * timestep)};
  const double power = schedule.alpha_cumprod(std::llround(timestep));
  return {.alpha = std::sqrt(power), .sigma = std::sqrt(1.0 - power)};
}

/// By what share the variance of the samples exceeds that of the data, where each step adds noise. A step is linear in
/// sample and noise, so its answers to each alone say how it changes the variance.
at::Tensor excess_variance(const SchedulerConfig& c, const diffusion::SamplerOptions& options) {
  const auto sampler = diffusion::make_sampler(c, options);
  const diffusion::NoiseSchedule schedule(c);
  const diffusion::ModelCall model{
      .answer = [&](const at::Tensor& shown, double t) { return best_answer(c, point_at(c, schedule, t), shown); }};
  const at::Tensor one = at::ones({1, 1, 2, 2});
  const at::Tensor zero = at::zeros({1, 1, 2, 2});
  const NoisePoint begin = point_at(c, schedule, sampler->timesteps().front());
  at::Tensor variance = variances() * (begin.alpha * begin.alpha) + begin.sigma * begin.sigma;
  for (std::size_t i = 0; i < sampler->timesteps().size(); ++i) {
    const bool noisy = sampler->needs_noise(i);
    const at::Tensor of_sample = sampler->step(i, one, noisy ? zero : at::Tensor(), model).to(at::kDouble);
    variance = variance * of_sample.square();
    if (noisy) variance = variance + sampler->step(i, zero, one, model).to(at::kDouble).square();
  }
  return variance / variances() - 1.0;
}

double largest(const at::Tensor& errors) { return errors.abs().max().item<double>(); }

/// Noise leaves an error a / n + b / n² + ... of n steps, which those of n, 2 n and 4 n steps extrapolate to what no
/// number of steps would mend.
void expect_first_order(const SchedulerConfig& c, diffusion::SamplerOptions options) {
  std::vector<at::Tensor> excess;
  for (int level = 0; level < 3; ++level) {
    excess.push_back(excess_variance(c, options));
    options.steps *= 2;
  }
  EXPECT_NEAR(std::log2(largest(excess[1]) / largest(excess[2])), 1.0, 0.1);
  EXPECT_LT(largest((8.0 * excess[2] - 6.0 * excess[1] + excess[0]) / 3.0), 1e-3) << excess[2];
}

/// Does what refine() does, with levels of noise in which coefficients that are rounded to float32, as diffusers has
/// them, are exact enough.
SchedulerConfig of_many_steps(SchedulerConfig c) {
  refine(c, false);
  c.num_train_timesteps = 2000;
  c.beta_start = 5e-5;
  c.beta_end = 1e-2;
  return c;
}

TEST(Gaussian, NoisyDdimMakesTheVariancesOfTheData) {
  for (const SchedulerConfig& c : schedulers()) {
    if (c.formulation != Formulation::ddpm) continue;
    for (const double eta : {0.3, 0.7, 1.0}) {
      SCOPED_TRACE(name_of(c) + " eta " + std::to_string(eta));
      expect_first_order(of_many_steps(c), {.scheduler = SamplerType::ddim, .steps = 500, .eta = eta});
    }
  }
}

/// Song et al. 2021, section 4.1: with eta = 1, ddim is ancestral sampling with the smaller of the two variances. The
/// larger one differs from it by the first order of the steps.
TEST(Gaussian, AncestralSamplingMakesTheVariancesOfNoisyDdim) {
  for (const SchedulerConfig& scheduler : schedulers()) {
    if (scheduler.formulation != Formulation::ddpm) continue;
    SCOPED_TRACE(name_of(scheduler));
    SchedulerConfig small = of_many_steps(scheduler);
    SchedulerConfig large = small;
    small.variance_type = diffusion::VarianceType::fixed_small;
    large.variance_type = diffusion::VarianceType::fixed_large;
    std::vector<double> more;
    for (const int64_t steps : {500, 1000}) {
      const at::Tensor least = excess_variance(small, {.scheduler = SamplerType::ddpm, .steps = steps});
      const at::Tensor ddim = excess_variance(small, {.scheduler = SamplerType::ddim, .steps = steps, .eta = 1.0});
      EXPECT_LT(largest(least - ddim), 2e-4);
      more.push_back(largest(excess_variance(large, {.scheduler = SamplerType::ddpm, .steps = steps}) - least));
    }
    EXPECT_NEAR(std::log2(more[0] / more[1]), 1.0, 0.1);
  }
}

/// Karras et al. 2022, algorithm 2: noise that is added before a step, which then begins from a higher level.
TEST(Gaussian, ChurnKeepsTheVariancesOfTheData) {
  for (SchedulerConfig c : schedulers()) {
    if (c.formulation != Formulation::edm) continue;
    refine(c, true);
    for (const double churn : {5.0, 40.0}) {
      SCOPED_TRACE(churn);
      expect_first_order(c, {.scheduler = SamplerType::euler, .steps = 400, .churn = churn});
      const auto heun = [&](int64_t steps) {
        return largest(excess_variance(c, {.scheduler = SamplerType::heun, .steps = steps, .churn = churn}));
      };
      EXPECT_NEAR(std::log2(heun(400) / heun(800)), 2.0, 0.1);
      EXPECT_LT(heun(800), 1e-3);
    }
  }
}

}  // namespace
}  // namespace ddpm::test
