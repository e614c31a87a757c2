#include "generate/phi4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/pulse.h"
#include "base/random.h"

namespace ddpm::generate {
namespace {

/// A trajectory's length is uniform in [1/2, 3/2), so that no mode swings in time with it.
constexpr double kShortest = 0.5;
/// Trajectories of a trial: those that come near the distribution, and those whose acceptance counts.
constexpr int kSettling = 40;
constexpr int kCounted = 40;
constexpr int kWantedOfThem = 30;
/// Steps to try, each about 1.4 times as many as those before.
constexpr auto kSteps = std::to_array({4, 6, 8, 11, 16, 22, 32, 45, 64, 90, 128, 180, 256});

std::vector<double> checked_masses(std::vector<double> masses_squared, double lambda) {
  expect_values(masses_squared, kPhi4MassSquared);
  expect_value(lambda, kPhi4Lambda);
  expect_masses(masses_squared, lambda, fmt::format("{}", fmt::join(masses_squared, ",")));
  return masses_squared;
}

}  // namespace

void expect_masses(const std::vector<double>& masses_squared, double lambda, const std::string& given) {
  if (lambda > 0.0 || std::ranges::min(masses_squared) >= 1e-6) return;
  throw base::ConfigError("--mass-squared {}: the free field (--lambda 0) wants values of at least 1e-6", given);
}

/// The random numbers of a chain, beside the field itself.
struct Phi4::Chain {
  uint64_t seed;
  int64_t sample;
  Draws draws;
  uint64_t trajectories = 0;

  Chain(uint64_t with_seed, int64_t of_sample) : seed(with_seed), sample(of_sample), draws(with_seed, of_sample) {}
  void fill_normal(std::span<float> values) {
    const auto position = static_cast<uint64_t>(sample);
    base::RandomSequence(seed, kFieldStream, trajectories++, position).fill_normal(values);
  }
};

Phi4::Phi4(std::vector<int64_t> sides, std::vector<double> masses_squared, double lambda, int64_t trajectories,
           uint64_t seed)
    : CoupledGenerator({"mass_squared", checked_masses(std::move(masses_squared), lambda)}),
      sides_(checked_grid(std::move(sides), kGrid)),
      lambda_(lambda),
      trajectories_(trajectories),
      seed_(seed),
      lattice_(sides_),
      field_(lattice_.sites()),
      before_(lattice_.sites()),
      momentum_(lattice_.sites()),
      normals_(lattice_.sites()) {
  expect_number(trajectories, kPhi4Trajectories);
  for (const double mass_squared : couplings().values) {
    actions_.emplace_back(sides_, mass_squared, lambda_);
    steps_.push_back(tune(actions_.back()));
  }
}

void Phi4::start(Chain& chain) {
  chain.fill_normal(normals_);
  std::ranges::copy(normals_, field_.begin());
}

/// Returns whether the new field was accepted.
bool Phi4::trajectory(Chain& chain, const Phi4Action& action, int steps) {
  base::pulse();
  chain.fill_normal(normals_);
  std::ranges::copy(normals_, momentum_.begin());
  before_ = field_;
  const auto energy = [&] {
    double kinetic = 0.0;
    for (const double p : momentum_) kinetic += 0.5 * p * p;
    return kinetic + action.value(field_);
  };
  const double step = (kShortest + chain.draws.uniform()) / steps;
  const double energy_before = energy();
  action.kick(field_, 0.5 * step, momentum_);
  for (int i = 0; i < steps; ++i) {
    for (std::size_t site = 0; site < field_.size(); ++site) field_[site] += step * momentum_[site];
    action.kick(field_, i + 1 < steps ? step : 0.5 * step, momentum_);
  }
  const double change = energy() - energy_before;
  if (chain.draws.uniform() < std::exp(-change)) return true;  // false of a NaN
  field_.swap(before_);
  return false;
}

/// Signs of given magnitudes are an Ising model with the couplings |phi(x) phi(y)|.
void Phi4::turn_signs(Chain& chain) {
  const auto joins = [&](uint32_t site, uint32_t neighbour) {
    const double coupling = -field_[site] * field_[neighbour];  // the site is turned already
    return coupling > 0.0 && chain.draws.uniform() < -std::expm1(-2.0 * coupling);
  };
  turn_cluster(lattice_, chain.draws, stack_, joins, [this](uint32_t site) { field_[site] = -field_[site]; });
}

/// The fewest steps of which about 3 of 4 trajectories are accepted. A function of the options alone: the trial is the
/// chain of a sample that no set has.
int Phi4::tune(const Phi4Action& action) {
  constexpr int64_t kTrial = 0xFFFFFFFF;
  Chain chain(0, kTrial);
  start(chain);
  for (int i = 0; i < kSettling; ++i) trajectory(chain, action, kSteps.back() / 4);
  for (const int steps : kSteps) {
    int accepted = 0;
    for (int i = 0; i < kCounted; ++i) accepted += trajectory(chain, action, steps) ? 1 : 0;
    if (accepted >= kWantedOfThem) return steps;
  }
  throw base::ConfigError("--lambda {}: no step size of Hybrid Monte Carlo fits lattices of {} sites", lambda_,
                          lattice_.sites());
}

data::Field Phi4::image_field() const {
  return make_image_field(sides_, base::DType::f32, {{.name = "phi", .unit = "", .transform = {}}});
}

base::OrderedJson Phi4::description() const {
  return {{"kind", "phi4"},
          {"sides", sides_},
          {"mass_squared", couplings().values},
          {"lambda", lambda_},
          {"trajectories", trajectories_},
          {"leapfrog_steps", steps_}};
}

void Phi4::make(int64_t sample, std::span<std::byte> image) {
  const std::size_t at = couplings().index(sample);
  Chain chain(seed_, sample);
  start(chain);
  for (int64_t i = 0; i < trajectories_; ++i) {
    trajectory(chain, actions_[at], steps_[at]);
    turn_signs(chain);
  }
  store(field_, image);
}

}  // namespace ddpm::generate
