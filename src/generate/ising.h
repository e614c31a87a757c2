// The Ising model without a field: probability exp(beta sum s_x s_y) / Z over the pairs of neighbours of a periodic
// lattice, spins of 1 and -1. Each sample ends a chain of Wolff clusters of its own.
#pragma once

#include "generate/generator.h"
#include "generate/limits.h"
#include "generate/periodic_lattice.h"

namespace ddpm::generate {

class Ising final : public CoupledGenerator {
 public:
  static constexpr GridLimits kGrid = {.least = 3, .most = 16384, .most_axes = 3, .channels = 1};

  /// `sides`: height and width, of volumes the depth before, each at least 3. `sweeps`: a chain turns as many spins as
  /// so many times the lattice has; a chain of random length would prefer states that follow large clusters, so the
  /// first half counts the clusters that it takes, and the second half consists of as many. Throws ConfigError for a
  /// grid outside kGrid, for betas outside kIsingBeta, and for sweeps outside kIsingSweeps.
  Ising(std::vector<int64_t> sides, std::vector<double> betas, int64_t sweeps, uint64_t seed);

  [[nodiscard]] data::Field image_field() const override;
  [[nodiscard]] base::OrderedJson description() const override;
  void make(int64_t sample, std::span<std::byte> image) override;

 private:
  void start(double beta, Draws& draws);
  std::size_t turn_one(uint32_t threshold, Draws& draws);

  std::vector<int64_t> sides_;
  int64_t sweeps_;
  uint64_t seed_;
  PeriodicLattice lattice_;
  std::vector<int8_t> spins_;
  std::vector<uint32_t> stack_;
};

}  // namespace ddpm::generate
