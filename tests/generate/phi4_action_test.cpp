#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "generate/periodic_lattice.h"
#include "generate/phi4.h"

namespace ddpm::generate {
namespace {

class Phi4ActionOf : public testing::TestWithParam<std::vector<int64_t>> {
 protected:
  Phi4ActionOf() : lattice_(GetParam()), field_(lattice_.sites()) {
    Draws draws(3, 4);
    for (double& phi : field_) phi = 2.0 * draws.uniform() - 1.0;
  }

  static constexpr double kMass = -0.7;
  static constexpr double kLambda = 0.3;
  PeriodicLattice lattice_;
  std::vector<double> field_;
};

TEST_P(Phi4ActionOf, FieldsIsTheSumOverBondsAndSites) {
  double wanted = 0.0;
  for (uint32_t site = 0; site < lattice_.sites(); ++site) {
    const double phi = field_[site];
    wanted += 0.5 * kMass * phi * phi + kLambda * std::pow(phi, 4);
    for (const uint32_t neighbour : lattice_.neighbours(site)) wanted += 0.25 * std::pow(phi - field_[neighbour], 2);
  }
  EXPECT_NEAR(Phi4Action(GetParam(), kMass, kLambda).value(field_), wanted, 1e-10);
}

TEST_P(Phi4ActionOf, FieldsHasTheDerivativeThatKicks) {
  const Phi4Action action(GetParam(), kMass, kLambda);
  std::vector<double> momentum(field_.size(), 1.0);
  action.kick(field_, 0.5, momentum);
  constexpr double kStep = 1e-4;
  for (std::size_t site = 0; site < field_.size(); ++site) {
    const double phi = field_[site];
    field_[site] = phi + kStep;
    const double above = action.value(field_);
    field_[site] = phi - kStep;
    const double below = action.value(field_);
    field_[site] = phi;
    EXPECT_NEAR(momentum[site], 1.0 - 0.5 * (above - below) / (2.0 * kStep), 1e-6) << "site " << site;
  }
}

INSTANTIATE_TEST_SUITE_P(Sides, Phi4ActionOf,
                         testing::Values(std::vector<int64_t>{3, 3}, std::vector<int64_t>{5, 21},
                                         std::vector<int64_t>{3, 4, 19}));

}  // namespace
}  // namespace ddpm::generate
