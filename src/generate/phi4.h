// Lattice phi^4 theory: probability exp(-S) / Z on a periodic lattice, with
//   S = sum over sites x of [ 1/2 sum over axes (phi(x + axis) - phi(x))² + mass_squared / 2 phi(x)² + lambda phi(x)^4
//   ]
// Each sample ends a chain of its own: Hybrid Monte Carlo (Duane, Kennedy, Pendleton, Roweth, Physics Letters B 195,
// 216 (1987)), and after each trajectory Wolff clusters of the signs (Brower, Tamayo, Physical Review Letters 62, 1087
// (1989)), which move the slowest mode.
#pragma once

#include "generate/generator.h"
#include "generate/limits.h"
#include "generate/periodic_lattice.h"

namespace ddpm::generate {

/// The action of one field, and its derivative.
class Phi4Action {
 public:
  Phi4Action(const std::vector<int64_t>& sides, double mass_squared, double lambda);

  [[nodiscard]] double value(std::span<const double> field) const;
  /// momentum -= step dS/dphi(field)
  void kick(std::span<const double> field, double step, std::span<double> momentum) const;

 private:
  /// Calls `line(first, others)` for each line along the last axis: its first site, and those of the neighbouring
  /// lines.
  template <typename Line>
  void for_lines(const Line& line) const;

  std::vector<std::size_t> sides_;
  std::size_t sites_ = 1;
  double mass_squared_;
  double lambda_;
};

/// Throws ConfigError for masses that the free field, of lambda = 0, cannot have: it wants m² of at least 1e-6.
/// `given`: what the user wrote for them.
void expect_masses(const std::vector<double>& masses_squared, double lambda, const std::string& given);

class Phi4 final : public CoupledGenerator {
 public:
  static constexpr GridLimits kGrid = {.least = 3, .most = 4096, .most_axes = 3, .channels = 1};

  /// `sides`: height and width, of volumes the depth before, each at least 3; lambda >= 0, and above 0 unless all
  /// masses are. `trajectories` of the mean length 1 for each sample. Throws ConfigError for a grid outside kGrid, for
  /// what generate/couplings.h does not allow, and as expect_masses().
  Phi4(std::vector<int64_t> sides, std::vector<double> masses_squared, double lambda, int64_t trajectories,
       uint64_t seed);

  [[nodiscard]] data::Field image_field() const override;
  [[nodiscard]] base::OrderedJson description() const override;
  void make(int64_t sample, std::span<std::byte> image) override;

 private:
  struct Chain;

  void start(Chain& chain);
  bool trajectory(Chain& chain, const Phi4Action& action, int steps);
  void turn_signs(Chain& chain);
  [[nodiscard]] int tune(const Phi4Action& action);

  std::vector<int64_t> sides_;
  double lambda_;
  int64_t trajectories_;
  uint64_t seed_;
  PeriodicLattice lattice_;
  std::vector<Phi4Action> actions_;  // for each mass
  std::vector<int> steps_;
  std::vector<double> field_, before_, momentum_;
  std::vector<float> normals_;
  std::vector<uint32_t> stack_;
};

}  // namespace ddpm::generate
