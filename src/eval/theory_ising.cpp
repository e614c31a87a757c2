// The Ising model, whose spins are the signs of the values on the model's scale: a continuous model is read so.
#include <algorithm>
#include <cmath>

#include "eval/exact_values.h"
#include "eval/theory.h"
#include "generate/periodic_lattice.h"

namespace ddpm::eval {
namespace {

class IsingTheory final : public Theory {
 public:
  IsingTheory(double beta, const std::vector<int64_t>& sides)
      : beta_(beta), sides_(sides), lattice_(sides), spins_(lattice_.sites()) {}

  /// Models see the values 0 and 255 of uint8 as -1 and 1.
  [[nodiscard]] std::vector<data::Variable> variables() const override {
    return {{.name = "spin", .unit = "", .transform = data::Normalization::of(base::DType::u8)}};
  }
  [[nodiscard]] Scale scale() const override { return Scale::model; }
  [[nodiscard]] std::size_t width() const override { return kSums; }

  void measure(std::span<const float> sample, std::span<double> sums) override {
    const auto sites = static_cast<double>(lattice_.sites());
    double off = 0.0;
    int64_t all = 0;
    for (std::size_t i = 0; i < spins_.size(); ++i) {
      spins_[i] = sample[i] < 0.0F ? -1 : 1;
      off += std::abs(std::abs(static_cast<double>(sample[i])) - 1.0);
      all += spins_[i];
    }
    int64_t bonds = 0;  // each from both of its sites
    for (uint32_t i = 0; i < lattice_.sites(); ++i) {
      for (const uint32_t j : lattice_.neighbours(i)) bonds += spins_[i] * spins_[j];
    }
    const double magnetisation = static_cast<double>(all) / sites;
    sums[kCount] += 1.0;
    sums[kEnergy] -= 0.5 * static_cast<double>(bonds) / sites;
    sums[kMagnetisation] += magnetisation;
    sums[kMagnitude] += std::abs(magnetisation);
    sums[kOff] += off / sites;
  }

  [[nodiscard]] std::vector<Row> rows() const override {
    std::vector<Row> rows;
    Row energy = row_of_mean("energy", kEnergy);
    const bool flat = sides_.size() == 2;
    if (flat) {
      const double exact = ising_energy(sides_[0], sides_[1], beta_);
      energy = with_exact(std::move(energy), exact, onsager_energy(beta_));
      energy.unit_deviation = std::sqrt(energy_variance());
    }
    rows.push_back(std::move(energy));  // without an exact value in three dimensions, where nobody knows
    rows.push_back(with_exact(row_of_mean("magnetisation", kMagnetisation), 0.0));
    Row magnitude = row_of_mean("magnetisation_magnitude", kMagnitude);
    if (flat) magnitude.metric.limit = spontaneous_magnetisation(beta_);
    rows.push_back(std::move(magnitude));
    Row off = row_of_mean("spin_deviation", kOff);
    off.metric.reference = 0.0;  // no test: what is not a spin is read as the nearer one
    off.distance = off.value;
    rows.push_back(std::move(off));
    return rows;
  }

 private:
  /// -de/dbeta per site is the variance of the energy per site of a sample.
  [[nodiscard]] double energy_variance() const {
    constexpr double kStep = 1e-3;
    const auto at = [this](double beta) { return ising_energy(sides_[0], sides_[1], beta); };
    const double low = std::max(0.0, beta_ - kStep);
    const double slope = (at(beta_ + kStep) - at(low)) / (beta_ + kStep - low);
    return std::max(0.0, -slope / static_cast<double>(lattice_.sites()));
  }

  enum Sum : std::size_t { kCount, kEnergy, kMagnetisation, kMagnitude, kOff, kSums };

  double beta_;
  std::vector<int64_t> sides_;
  generate::PeriodicLattice lattice_;
  std::vector<int> spins_;
};

}  // namespace

std::unique_ptr<Theory> make_ising(const TheoryName& name, const Lattice& lattice) {
  const auto beta = name.couplings.find("beta");
  return std::make_unique<IsingTheory>(
      beta != name.couplings.end() ? beta->second : 1.0 / name.couplings.at("temperature"), lattice.sides);
}

}  // namespace ddpm::eval
