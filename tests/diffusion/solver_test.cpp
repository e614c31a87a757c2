// euler, heun and dpmsolver++ against diffusers: whole trajectories with a model that both can compute, and the sums
// that diffusers' own tests of its schedulers state.
#include <cmath>
#include <string>

#include <ATen/ops/arange.h>
#include <ATen/ops/tanh.h>

#include "diffusion/noise_grid.h"
#include "diffusion/samplers.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::Formulation;
using diffusion::SamplerOptions;
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
      : options{.scheduler = golden.at("sampler"), .steps = golden.at("steps")},
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

/// The loop of the tests of euler, which steps from the sample that the model was shown.
at::Tensor from_shown(const Case& c, at::Tensor x) {
  const diffusion::NoiseGrid grid = diffusion::derivative_grid(c.config, c.options.steps);
  x = x * c.sampler->init_noise_sigma();
  for (std::size_t i = 0; i + 1 < grid.points.size(); ++i) {
    const double in = diffusion::scalings(c.config, grid.points[i]).in;
    x = c.sampler->step(i, x * in, {}, [&](const at::Tensor& shown, double t) { return dummy(shown / in, t); });
  }
  return x;
}

TEST(Solvers, GiveTheSumsThatDiffusersTestsState) {
  const base::Json cases = read_golden("dummy.json");
  ASSERT_GE(cases.size(), 60);
  const at::Tensor noise = (at::arange(768, at::kFloat).reshape({3, 8, 8, 4}) / 768).permute({3, 0, 1, 2});
  for (const base::Json& golden : cases) {
    SCOPED_TRACE(name_of(golden));
    const Case c(golden);
    const at::Tensor seen =
        golden.at("scaled").get<bool>()
            ? from_shown(c, noise)
            : diffusion::sample(*c.sampler, {}, noise,
                                [](const at::Tensor& x, const at::Tensor& t) { return dummy(x, t[0].item<double>()); });
    const double sum = seen.abs().sum(at::kDouble).item<double>();
    EXPECT_NEAR(sum, golden.at("sum").get<double>(), 1e-3 + 2e-4 * golden.at("sum").get<double>());
  }
}

}  // namespace
}  // namespace ddpm::test
