// euler, heun and dpmsolver++ against diffusers: whole trajectories with a model that both can compute, and the sums
// that diffusers' own tests of its schedulers state, those of ddpm and ddim among them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>

#include "base/named.h"
#include "diffusion/noise_grid.h"
#include "diffusion/samplers.h"
#include "diffusion/schedule.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::Formulation;
using diffusion::NoisePoint;
using diffusion::SamplerOptions;
using diffusion::SamplerType;
using diffusion::Scalings;
using diffusion::SchedulerConfig;

/// The models of make_golden.py.
diffusion::Denoiser make_model(const SchedulerConfig& config) {
  const bool edm = config.formulation == Formulation::edm;
  return [edm, total = static_cast<double>(config.num_train_timesteps)](const at::Tensor& x, const at::Tensor& t) {
    const double time = t[0].item<double>();
    if (edm) return x * (0.4 + 0.1 * time) + at::tanh(x) * (0.3 - 0.05 * time);
    const double tau = time / total;
    return x * (0.4 + 0.5 * tau) + at::tanh(x) * (0.3 - 0.2 * tau);
  };
}

std::string name_of(const base::Json& golden) {
  return golden.at("file").dump() + " " + golden.at("sampler").dump() + " " + golden.at("steps").dump();
}

struct Case {
  explicit Case(const base::Json& golden)
      : options{.scheduler = sampler_of(golden), .steps = golden.at("steps")},
        config(diffusion::read_scheduler(golden.at("file"), options.scheduler, "golden")),
        sampler(diffusion::make_sampler(config, options)) {}
  SamplerOptions options;
  SchedulerConfig config;
  std::unique_ptr<diffusion::Sampler> sampler;
};

TEST(Solvers, TrajectoriesAgreeWithDiffusers) {
  const base::Json cases = read_golden("solvers.json");
  ASSERT_GT(cases.size(), 200);
  const at::Tensor noise = diffusion::initial_noise(kGoldenSeed, kGoldenFirstImage, 2, kGoldenShape);
  double worst = 0.0;
  for (const base::Json& golden : cases) {
    SCOPED_TRACE(name_of(golden));
    const Case c(golden);
    const at::Tensor seen =
        diffusion::sample(*c.sampler, {kGoldenSeed, kGoldenFirstImage}, noise, make_model(c.config));
    const double error = relative_error(seen, floats(golden.at("sample")));
    EXPECT_LT(error, 1e-4);
    worst = std::max(worst, error);
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(Solvers, VisitTheTimesOfDiffusers) {
  for (const base::Json& golden : read_golden("solvers.json")) {
    SCOPED_TRACE(name_of(golden));
    const Case c(golden);
    const auto wanted = golden.at("times").get<std::vector<double>>();
    const std::vector<double>& visited = c.sampler->timesteps();
    ASSERT_EQ(visited.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(visited[i], wanted[i], 1e-4 * std::max(1.0, std::abs(wanted[i]))) << i;
    }
  }
}

/// The model of diffusers' tests.
at::Tensor dummy(const at::Tensor& x, double t) { return x * (t / (t + 1.0)); }

/// The order that the samples of those tests have in memory.
at::Tensor dummy_images(const at::Tensor& numbers) {
  return (numbers.reshape({3, 8, 8, 4}) / 768).permute({3, 0, 1, 2});
}

/// The levels at which the sampler calls the model, and maybe the one that it ends at.
std::vector<NoisePoint> points_of(const Case& c) {
  const SamplerType type = c.options.scheduler;
  if (is_dpmsolver(type)) return diffusion::lambda_grid(c.config, c.options.steps, type).points;
  if (type == SamplerType::euler || type == SamplerType::heun)
    return diffusion::derivative_grid(c.config, c.options.steps).points;
  const diffusion::NoiseSchedule schedule(c.config);
  std::vector<NoisePoint> points;
  for (const double t : c.sampler->timesteps()) {
    const double signal = schedule.alpha_cumprod(static_cast<int64_t>(t));
    points.push_back({.timestep = t, .alpha = std::sqrt(signal), .sigma = std::sqrt(1.0 - signal)});
  }
  return points;
}

/// Takes the steps before `last`, which all see the image that `x` is taken for at `last`, so that they lead to x.
/// Where diffusers begins within a grid it knows of no step before and takes one of first order; so do ours then, as
/// the image has not changed.
void lead_to(const Case& c, const std::vector<NoisePoint>& points, std::size_t last, const at::Tensor& x) {
  const NoisePoint& end = points[last];
  const Scalings there = scalings(c.config, end);
  const at::Tensor image = x * there.skip + dummy(x, end.timestep) * there.out;
  at::Tensor reached = image * points[0].alpha + (x - image * end.alpha) * (points[0].sigma / end.sigma);
  for (std::size_t i = 0; i < last; ++i) {
    const Scalings s = scalings(c.config, points[i]);
    const diffusion::ModelCall model{
        .answer = [&](const at::Tensor& shown, double) { return (image - shown * (s.skip / s.in)) / s.out; }};
    reached = c.sampler->step(i, reached, {}, model);
  }
  EXPECT_LT(relative_error(reached, x), 1e-4);
}

/// The loops of make_dummy_golden.py.
at::Tensor dummy_loop(const Case& c, const base::Json& golden) {
  const std::string loop = golden.at("loop");
  const auto first = golden.at("first_step").get<std::size_t>();
  const std::vector<NoisePoint> points = points_of(c);
  const at::Tensor numbers = at::arange(768, at::kFloat);
  at::Tensor x = dummy_images(numbers) * (loop == "unscaled" ? 1.0 : c.sampler->init_noise_sigma());
  if (golden.at("adds_noise").get<bool>()) {
    x = x * points[first].alpha + dummy_images(numbers.flip(0)) * points[first].sigma;
  }
  if (first > 0 && is_dpmsolver(c.options.scheduler)) lead_to(c, points, first, x);
  at::Generator generator = at::detail::createCPUGenerator(0);  // has the numbers of torch.manual_seed(0)
  for (std::size_t i = first; i < c.sampler->timesteps().size(); ++i) {
    const at::Tensor noise = c.sampler->needs_noise(i) ? at::randn(x.sizes(), generator, at::kFloat) : at::Tensor();
    if (loop == "from_shown") x = x * scalings(c.config, points[i]).in;
    std::size_t level = i;
    const auto answer = [&](const at::Tensor& shown, double t) {
      if (loop == "pipeline") return dummy(shown, t);
      // diffusers has the sample itself shown. At heun's second level that is the scaled one, from which it goes on
      // there: the answer makes up for ours, which goes on from what it scales.
      const Scalings s = scalings(c.config, points[level]);
      const at::Tensor ours = shown / s.in;
      const at::Tensor theirs = level == i ? ours : shown;
      ++level;
      return dummy(theirs, t) + (theirs - ours) * ((s.skip - 1.0) / s.out);
    };
    x = c.sampler->step(i, x, noise, {.answer = answer});
  }
  return x;
}

/// Magnitudes, as diffusers' tests sum them up.
double dummy_sum(const Case& c, const base::Json& golden) {
  return dummy_loop(c, golden).abs().sum(at::kDouble).item<double>();
}

/// Schedules whose ᾱ float32 rounds to 0, at many timesteps or at the last one.
std::vector<SchedulerConfig> schedules_that_lose_all_signal() {
  std::vector<SchedulerConfig> all(3);
  all[0].beta_end = 0.3;
  all[1].num_train_timesteps = 20000;
  all[2].trained_betas = {0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0};
  all[2].num_train_timesteps = std::ssize(all[2].trained_betas);
  return all;
}

TEST(Solvers, StartFromAFiniteLevelWhereNoSignalIsLeft) {
  const at::Tensor noise = diffusion::initial_noise(kGoldenSeed, kGoldenFirstImage, 2, kGoldenShape);
  for (SchedulerConfig config : schedules_that_lose_all_signal()) {
    for (const auto type : {SamplerType::euler, SamplerType::heun, SamplerType::dpmsolver_pp,
                            SamplerType::dpmsolver_pp_2s, SamplerType::ddpm, SamplerType::ddim}) {
      const bool ancestral = type == SamplerType::ddpm || type == SamplerType::ddim;
      for (const auto prediction : {diffusion::PredictionType::v_prediction, diffusion::PredictionType::sample}) {
        for (const bool varied : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", config.num_train_timesteps, base::name_of(type),
                                   base::name_of(prediction), varied));
          config.prediction_type = prediction;
          const SamplerOptions options{.scheduler = type,
                                       .steps = 8,
                                       .eta = varied && type == SamplerType::ddim ? 1.0 : 0.0,
                                       .timestep_spacing = diffusion::TimestepSpacing::linspace,
                                       .karras_sigmas = varied && !ancestral};
          const auto sampler = diffusion::make_sampler(config, options);
          EXPECT_TRUE(std::ranges::is_sorted(sampler->timesteps(), std::greater<>()));
          const at::Tensor seen = diffusion::sample(*sampler, {kGoldenSeed, 0}, noise, make_model(config));
          EXPECT_TRUE(seen.isfinite().all().item<bool>());
        }
      }
    }
  }
}

TEST(Solvers, GiveTheSumsThatDiffusersTestsState) {
  const base::Json cases = read_golden("dummy.json");
  ASSERT_GE(cases.size(), 80);
  int64_t stated = 0;
  double worst = 0.0;
  for (const base::Json& golden : cases) {
    SCOPED_TRACE(name_of(golden) + " " + golden.at("loop").dump() + " from " + golden.at("first_step").dump());
    const double wanted = golden.at("sum");
    const double sum = dummy_sum(Case(golden), golden);
    EXPECT_NEAR(sum, wanted, 2e-4 * wanted);
    worst = std::max(worst, std::abs(sum / wanted - 1.0));
    if (golden.at("stated").is_null()) continue;
    ++stated;
    const double number = golden.at("stated");
    // Sums of many thousands are stated to more digits than float32 has.
    EXPECT_NEAR(sum, number, std::max(golden.at("tolerance").get<double>(), 1e-6 * number));
  }
  EXPECT_GE(stated, 32);
  RecordProperty("worst", std::to_string(worst));
}

}  // namespace
}  // namespace ddpm::test
