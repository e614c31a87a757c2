#include "diffusion/noise_grid.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/named.h"
#include "diffusion/sampler_formulas.h"
#include "diffusion/schedule.h"

namespace ddpm::diffusion {
namespace {

/// Karras et al. 2022, eq. 5: level i of n.
double karras_sigma(double sigma_max, double sigma_min, double rho, int64_t i, int64_t n) {
  const double ramp = n == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(n - 1);
  const double from = std::pow(sigma_max, 1.0 / rho);
  const double to = std::pow(sigma_min, 1.0 / rho);
  return std::pow(from + ramp * (to - from), rho);
}
constexpr double kRho = 7.0;  // that of diffusers where use_karras_sigmas is set

float sigma_of(float alpha_cumprod) { return std::sqrt((1.0F - alpha_cumprod) / alpha_cumprod); }

/// σ = √(1/ᾱ - 1) of each timestep, and between timesteps. Where ᾱ is so near to 0 that σ would be infinite, all
/// further timesteps have the last level of the table.
class SigmaTable {
 public:
  explicit SigmaTable(const SchedulerConfig& c) {
    constexpr float kLeast = 0x1p-24F;  // diffusers keeps σ finite so, where betas are rescaled
    const NoiseSchedule schedule(c);
    for (int64_t t = 0; t < c.num_train_timesteps; ++t) {
      const float alpha_cumprod = schedule.alpha_cumprod(t);
      const float sigma = sigma_of(c.rescale_betas_zero_snr ? std::max(alpha_cumprod, kLeast) : alpha_cumprod);
      if (std::isfinite(sigma)) {
        sigmas_.push_back(sigma);
        continue;
      }
      if (sigmas_.empty() || sigmas_.back() < sigma_of(kLeast)) sigmas_.push_back(sigma_of(kLeast));
      break;
    }
  }

  [[nodiscard]] double lowest() const { return sigmas_.front(); }

  /// Linear between timesteps, which may lie outside of the table where they are refused later.
  [[nodiscard]] double at(double t) const {
    const auto low = static_cast<std::size_t>(std::clamp(t, 0.0, static_cast<double>(sigmas_.size() - 1)));
    const std::size_t high = std::min(low + 1, sigmas_.size() - 1);
    return sigmas_[low] + (sigmas_[high] - sigmas_[low]) * (t - static_cast<double>(low));
  }

  /// The timestep of `sigma`, linear in ln σ between timesteps.
  [[nodiscard]] double timestep_of(double sigma) const {
    if (sigmas_.size() == 1) return 0.0;
    const auto above = std::upper_bound(sigmas_.begin(), sigmas_.end(), sigma);
    const std::ptrdiff_t below = above - sigmas_.begin() - 1;
    const auto low = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(below, 0, std::ssize(sigmas_) - 2));
    const double from = std::log(sigmas_[low]);
    const double w = std::clamp((std::log(sigma) - from) / (std::log(sigmas_[low + 1]) - from), 0.0, 1.0);
    return static_cast<double>(low) + w;
  }

  /// One more than the highest timestep whose λ = -ln σ is at least `lambda`.
  [[nodiscard]] int64_t timesteps_from(double lambda) const {
    return std::upper_bound(sigmas_.begin(), sigmas_.end(), std::exp(-lambda)) - sigmas_.begin();
  }

 private:
  std::vector<double> sigmas_;
};

/// A point of ddpm, of which α = 1.
NoisePoint exploding(double timestep, double sigma) { return {.timestep = timestep, .alpha = 1.0, .sigma = sigma}; }
/// The level of `point` with α² + σ² = 1.
NoisePoint preserving(const NoisePoint& point) {
  const double s = std::hypot(1.0, point.sigma);
  return {.timestep = point.timestep, .alpha = 1.0 / s, .sigma = point.sigma / s};
}

/// Where the last step leads to. The model is not called there.
NoisePoint last_point(const SchedulerConfig& c, double sigma_min) {
  return exploding(0.0, c.solver.final_sigmas_type == FinalSigma::zero ? 0.0 : sigma_min);
}

/// Drops the first points that have the level of the next one, as timesteps without any signal do: a step of no length
/// leads nowhere, and some solvers divide by it.
void drop_repeated_levels(std::vector<NoisePoint>& points) {
  auto first = points.begin();
  while (std::next(first) != points.end() && std::next(first)->sigma == first->sigma) ++first;
  points.erase(points.begin(), first);
}

/// Replaces the levels of `points` by those between the two that are given, or that the model's file says.
void respace(std::vector<NoisePoint>& points, const SolverConfig& c, const SigmaTable& table, double sigma_max,
             double sigma_min) {
  const auto n = std::ssize(points);
  sigma_max = c.karras_sigma_max.value_or(sigma_max);
  sigma_min = c.karras_sigma_min.value_or(sigma_min);
  if (n > 1 && sigma_min >= sigma_max) {
    throw base::ConfigError("use_karras_sigmas: sigma_min = {} is not below sigma_max = {}", sigma_min, sigma_max);
  }
  for (int64_t i = 0; i < n; ++i) {
    const double sigma = karras_sigma(sigma_max, sigma_min, kRho, i, n);
    points[static_cast<std::size_t>(i)] = exploding(table.timestep_of(sigma), sigma);
  }
}

NoiseGrid ddpm_derivative_grid(const SchedulerConfig& c, int64_t steps) {
  const SigmaTable table(c);
  NoiseGrid grid;
  const std::vector<int64_t> spaced = spaced_timesteps(c, steps);
  for (int64_t i = 0; i < steps; ++i) {
    double t = static_cast<double>(spaced[static_cast<std::size_t>(i)]);
    if (c.timestep_spacing == TimestepSpacing::linspace && steps > 1) {  // not rounded to whole ones
      t = static_cast<double>((c.num_train_timesteps - 1) * (steps - 1 - i)) / static_cast<double>(steps - 1);
    }
    grid.points.push_back(exploding(t, table.at(t)));
  }
  if (c.solver.use_karras_sigmas) {
    respace(grid.points, c.solver, table, grid.points.front().sigma, grid.points.back().sigma);
  } else {
    drop_repeated_levels(grid.points);
  }
  const double highest = grid.points.front().sigma;
  grid.start = c.timestep_spacing == TimestepSpacing::leading ? std::hypot(highest, 1.0) : highest;
  grid.points.push_back(last_point(c, table.lowest()));
  return grid;
}

/// The whole timesteps of DPMSolverMultistepScheduler below `total`.
std::vector<int64_t> lambda_timesteps(const SchedulerConfig& c, int64_t total, int64_t steps) {
  std::vector<int64_t> timesteps;
  const double stride = static_cast<double>(c.num_train_timesteps) / static_cast<double>(steps);
  for (int64_t i = 0; i < steps; ++i) {
    switch (c.timestep_spacing) {
      case TimestepSpacing::linspace:
        timesteps.push_back(
            std::llrint(static_cast<double>(total - 1) / static_cast<double>(steps) * static_cast<double>(steps - i)));
        break;
      case TimestepSpacing::leading:
        timesteps.push_back(total / (steps + 1) * (steps - i) + c.steps_offset);
        break;
      case TimestepSpacing::trailing: {
        const double t = falling_number(static_cast<double>(total), stride, i);
        if (t > 0.0) timesteps.push_back(std::llrint(t) - 1);
        break;
      }
    }
  }
  return timesteps;
}

/// Equal neighbours would be a step of no length, which divides by it.
void expect_descending(const SchedulerConfig& c, const std::vector<int64_t>& timesteps) {
  for (std::size_t i = 0; i < timesteps.size(); ++i) {
    const int64_t t = timesteps[i];
    if (t < 0 || t >= c.num_train_timesteps || (i > 0 && t >= timesteps[i - 1])) {
      throw base::ConfigError(
          "{} steps with timestep_spacing = \"{}\" and steps_offset = {} visit timestep {} of {} {}; wanted: fewer",
          timesteps.size(), base::name_of(c.timestep_spacing), c.steps_offset, t, c.num_train_timesteps,
          i > 0 && t >= timesteps[i - 1] ? "twice" : "that the model knows");
    }
  }
}

NoiseGrid ddpm_lambda_grid(const SchedulerConfig& c, int64_t steps, SamplerType solver) {
  const SigmaTable table(c);
  const auto& lambda_min = c.solver.lambda_min_clipped;
  const int64_t total = lambda_min ? table.timesteps_from(*lambda_min) : c.num_train_timesteps;
  if (total < 1) throw base::ConfigError("lambda_min_clipped = {} leaves no timestep", *lambda_min);
  std::vector<int64_t> timesteps = lambda_timesteps(c, total, steps);
  NoiseGrid grid;
  for (const int64_t t : timesteps)
    grid.points.push_back(exploding(static_cast<double>(t), table.at(static_cast<double>(t))));
  if (c.solver.use_karras_sigmas) {
    respace(grid.points, c.solver, table, table.at(static_cast<double>(c.num_train_timesteps - 1)), table.lowest());
    for (NoisePoint& point : grid.points) {
      // To whole timesteps. diffusers' multistep solver rounds down for cosine schedules, and finds whole ones to lie
      // just below; its singlestep solver does not.
      const bool down = solver == SamplerType::dpmsolver_pp && c.beta_schedule == BetaSchedule::squaredcos_cap_v2;
      point.timestep = down ? std::max(0.0, std::floor(point.timestep - 1e-9)) : std::nearbyint(point.timestep);
    }
  } else {
    expect_descending(c, timesteps);
    drop_repeated_levels(grid.points);
  }
  grid.points.push_back(last_point(c, table.lowest()));
  for (NoisePoint& point : grid.points) point = preserving(point);
  return grid;
}

NoiseGrid edm_grid(const SchedulerConfig& c, int64_t steps) {
  NoiseGrid grid;
  for (int64_t i = 0; i < steps; ++i) {
    const double sigma = karras_sigma(c.sigma_max, c.sigma_min, c.rho, i, steps);
    grid.points.push_back(exploding(c_noise(sigma), sigma));
  }
  grid.start = std::hypot(c.sigma_max, 1.0);  // as diffusers has it; eq. 5 has sigma_max
  grid.points.push_back(last_point(c, c.sigma_min));
  return grid;
}

double shifted(const SchedulerConfig& c, double t) { return c.shift * t / (1.0 + (c.shift - 1.0) * t); }

NoisePoint flowing(const SchedulerConfig& c, double t) {
  return {.timestep = t * static_cast<double>(c.num_train_timesteps), .alpha = 1.0 - t, .sigma = t};
}

/// diffusers spaces t evenly from 1 to its lowest level, which is shifted already, and shifts all of them; Karras'
/// levels lie between the first and the last.
NoiseGrid flow_derivative_grid(const SchedulerConfig& c, int64_t steps) {
  const double lowest = shifted(c, 1.0 / static_cast<double>(c.num_train_timesteps));
  NoiseGrid grid;
  for (int64_t i = 0; i < steps; ++i) {
    const double ramp = steps == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    grid.points.push_back(flowing(c, shifted(c, 1.0 + ramp * (lowest - 1.0))));
  }
  if (c.solver.use_karras_sigmas) {
    const double last = grid.points.back().sigma;
    for (int64_t i = 0; i < steps; ++i) {
      grid.points[static_cast<std::size_t>(i)] = flowing(c, karras_sigma(1.0, last, kRho, i, steps));
    }
  }
  grid.points.push_back(flowing(c, 0.0));
  return grid;
}

NoiseGrid flow_lambda_grid(const SchedulerConfig& c, int64_t steps, SamplerType solver) {
  if (c.num_train_timesteps < 2) {
    throw base::ConfigError(
        "num_train_timesteps = {}: {} begins below the highest level of a flow, and has none there; wanted: 2 or more, "
        "or --scheduler {}",
        c.num_train_timesteps, base::name_of(solver), base::name_of(SamplerType::euler));
  }
  const double highest = 1.0 - 1.0 / static_cast<double>(c.num_train_timesteps);
  NoiseGrid grid;
  for (int64_t i = 0; i <= steps; ++i) {
    grid.points.push_back(
        flowing(c, shifted(c, highest * static_cast<double>(steps - i) / static_cast<double>(steps))));
  }
  return grid;
}

}  // namespace

std::vector<double> NoiseGrid::timesteps() const {
  std::vector<double> timesteps;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) timesteps.push_back(points[i].timestep);
  return timesteps;
}

NoiseGrid derivative_grid(const SchedulerConfig& c, int64_t steps) {
  switch (c.formulation) {
    case Formulation::ddpm:
      return ddpm_derivative_grid(c, steps);
    case Formulation::edm:
      return edm_grid(c, steps);
    case Formulation::flow:
      return flow_derivative_grid(c, steps);
    case Formulation::regression:
      break;
  }
  throw base::InternalError("formulation {}", static_cast<int>(c.formulation));
}

NoiseGrid lambda_grid(const SchedulerConfig& c, int64_t steps, SamplerType solver) {
  switch (c.formulation) {
    case Formulation::ddpm:
      return ddpm_lambda_grid(c, steps, solver);
    case Formulation::edm:
      return edm_grid(c, steps);
    case Formulation::flow:
      return flow_lambda_grid(c, steps, solver);
    case Formulation::regression:
      break;
  }
  throw base::InternalError("formulation {}", static_cast<int>(c.formulation));
}

}  // namespace ddpm::diffusion
