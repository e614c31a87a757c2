// Lattice phi^4 theory and Gaussian random fields.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "data/radial_spectrum.h"
#include "eval/field_rows.h"
#include "eval/theory.h"
#include "generate/gaussian_field.h"
#include "generate/phi4.h"

namespace ddpm::eval {
namespace {

/// A field with one variable, whose spectrum is summed from a place of the sums on.
class SpectralTheory : public Theory {
 public:
  SpectralTheory(const std::vector<int64_t>& sides, std::size_t first)
      : spectrum_(sides),
        first_(first),
        last_side_(static_cast<std::size_t>(sides.back())),
        values_(spectrum_.size()) {}
  [[nodiscard]] std::size_t width() const override { return first_ + spectrum_.rings(); }

 protected:
  /// Takes the sample's values in, and adds its spectrum.
  void take(std::span<const float> sample, std::span<double> sums) {
    std::ranges::copy(sample, values_.begin());
    const double mean = std::reduce(values_.begin(), values_.end()) / sites();
    centred_.resize(values_.size());
    for (std::size_t i = 0; i < values_.size(); ++i) centred_[i] = values_[i] - mean;
    const std::span<const double> power = spectrum_.power(centred_);
    for (std::size_t ring = 0; ring < power.size(); ++ring) sums[first_ + ring] += power[ring];
    sums[0] += 1.0;
  }
  [[nodiscard]] std::span<const double> values() const { return values_; }
  [[nodiscard]] double sites() const { return static_cast<double>(values_.size()); }
  /// The mean over all sites of a number of the value there.
  template <typename Number>
  [[nodiscard]] double mean_of_sites(const Number& number) const {
    double sum = 0.0;
    for (const double x : values_) sum += number(x);
    return sum / sites();
  }

  /// The mean over all modes, those that the half spectrum leaves out too.
  [[nodiscard]] double mean_of_modes(std::span<const double> half) const {
    const std::size_t columns = last_side_ / 2 + 1;
    double sum = 0.0;
    for (std::size_t i = 0; i < half.size(); ++i) {
      const std::size_t column = i % columns;
      sum += column == 0 || 2 * column == last_side_ ? half[i] : 2.0 * half[i];
    }
    return sum / sites();
  }

  /// A row for the mean square of a free field. The square of a mode's amplitude has twice the variance of its power
  /// squared, whether the mode is real or one of two that are conjugates.
  [[nodiscard]] Row row_of_square(Row row, std::span<const double> exact) const {
    row.unit_deviation = std::sqrt(2.0 * mean_of_modes(squares_of(exact)) / sites());
    return row;
  }

  /// The power of each band of a free field, with the exact powers of all modes of the half spectrum.
  void append_bands(std::vector<Row>& rows, std::span<const double> exact) const {
    const std::vector<double> of_rings = spectrum_.average(exact);
    const std::vector<double> squares = spectrum_.average(squares_of(exact));
    for (const Band& band : bands_of(of_rings.size())) {
      double wanted = 0.0;
      double variance = 0.0;
      double modes = 0.0;
      for (std::size_t ring = band.first; ring <= band.last; ++ring) {
        const auto number = static_cast<double>(spectrum_.modes()[ring]);
        wanted += number * of_rings[ring];
        variance += 2.0 * number * squares[ring];
        modes += number;
      }
      Row row = {.metric = {.name = "power", .level = band.name(), .estimate = {}},
                 .value =
                     [band, first = first_, of_modes = spectrum_.modes(), modes](std::span<const double> sums,
                                                                                 std::span<const double> /*data*/) {
                       double power = 0.0;
                       for (std::size_t ring = band.first; ring <= band.last; ++ring) {
                         power += static_cast<double>(of_modes[ring]) * sums[first + ring];
                       }
                       return power / (modes * sums[0]);
                     },
                 .unit_deviation = std::sqrt(variance) / modes};
      rows.push_back(with_exact(std::move(row), wanted / modes));
    }
  }

 private:
  static std::vector<double> squares_of(std::span<const double> numbers) {
    std::vector<double> squares;
    squares.reserve(numbers.size());
    for (const double number : numbers) squares.push_back(number * number);
    return squares;
  }

  data::RadialSpectrum spectrum_;
  std::size_t first_;
  std::size_t last_side_;
  std::vector<double> values_;
  std::vector<double> centred_;
};

std::vector<data::Variable> plain_variable(const char* name) { return {{.name = name, .unit = "", .transform = {}}}; }

class Phi4Theory final : public SpectralTheory {
 public:
  Phi4Theory(const std::vector<int64_t>& sides, double mass_squared, double lambda)
      : SpectralTheory(sides, kSums),
        sides_(sides),
        mass_squared_(mass_squared),
        lambda_(lambda),
        action_(sides, mass_squared, lambda) {}

  [[nodiscard]] std::vector<data::Variable> variables() const override { return plain_variable("phi"); }

  void measure(std::span<const float> sample, std::span<double> sums) override {
    take(sample, sums);
    slope_.assign(values().size(), 0.0);
    action_.kick(values(), -1.0, slope_);
    const auto length = static_cast<std::size_t>(sides_.back());
    double same = 0.0;
    double neighbour = 0.0;
    double cubed = 0.0;
    for (std::size_t i = 0; i < values().size(); ++i) {
      const double phi = values()[i];
      const std::size_t next = (i + 1) % length == 0 ? i + 1 - length : i + 1;
      same += phi * slope_[i];
      neighbour += values()[next] * slope_[i];
      cubed += phi * phi * (phi * slope_[i] - 3.0);
    }
    const double mean = mean_of_sites([](double x) { return x; });
    sums[kMean] += mean;
    sums[kSquare] += mean_of_sites([](double x) { return x * x; });
    sums[kFourth] += mean_of_sites([](double x) { return x * x * x * x; });
    sums[kZeroMode] += mean * mean * sites();
    sums[kSame] += same / sites();
    sums[kNeighbour] += neighbour / sites();
    sums[kCubed] += cubed / sites();
  }

  [[nodiscard]] std::vector<Row> rows() const override {
    std::vector<Row> rows;
    rows.push_back(with_exact(row_of_mean("phi", kMean), 0.0));
    const auto identity = [&](const char* level, Sum place, double exact) {
      Row row = row_of_mean("schwinger_dyson", place);
      row.metric.level = level;
      rows.push_back(with_exact(std::move(row), exact));
    };
    identity("phi dS/dphi", kSame, 1.0);
    identity("phi' dS/dphi", kNeighbour, 0.0);
    identity("phi^3 dS/dphi - 3 phi^2", kCubed, 0.0);
    Row square = row_of_mean("phi_squared", kSquare);
    Row zero = row_of_mean("power", kZeroMode);
    zero.metric.level = "k 0";
    if (lambda_ > 0.0) {
      rows.push_back(std::move(square));
      rows.push_back(row_of_mean("phi_fourth", kFourth));
      return rows;
    }
    const std::vector<double> propagator = free_propagator();
    zero.unit_deviation = std::numbers::sqrt2 / mass_squared_;
    rows.push_back(with_exact(row_of_square(std::move(square), propagator), mean_of_modes(propagator)));
    rows.push_back(with_exact(std::move(zero), 1.0 / mass_squared_));
    append_bands(rows, propagator);
    return rows;
  }

 private:
  enum Sum : std::size_t { kCount, kMean, kSquare, kFourth, kZeroMode, kSame, kNeighbour, kCubed, kSums };

  /// E|phi(k)|² / N = 1 / (sum 4 sin²(k / 2) + m²) over the half spectrum.
  [[nodiscard]] std::vector<double> free_propagator() const {
    std::vector<double> momenta = {mass_squared_};
    for (std::size_t axis = 0; axis < sides_.size(); ++axis) {
      const int64_t side = sides_[axis];
      const int64_t columns = axis + 1 == sides_.size() ? side / 2 + 1 : side;
      std::vector<double> sums;
      for (const double before : momenta) {
        for (int64_t i = 0; i < columns; ++i) {
          const double half = std::sin(std::numbers::pi * static_cast<double>(i) / static_cast<double>(side));
          sums.push_back(before + 4.0 * half * half);
        }
      }
      momenta = std::move(sums);
    }
    for (double& momentum : momenta) momentum = 1.0 / momentum;
    return momenta;
  }

  std::vector<int64_t> sides_;
  double mass_squared_;
  double lambda_;
  generate::Phi4Action action_;
  std::vector<double> slope_;
};

class GaussianTheory final : public SpectralTheory {
 public:
  GaussianTheory(const std::vector<int64_t>& sides, double slope)
      : SpectralTheory(sides, kSums), power_(generate::power_law(sides, slope)) {}

  [[nodiscard]] std::vector<data::Variable> variables() const override { return plain_variable("field"); }

  void measure(std::span<const float> sample, std::span<double> sums) override {
    take(sample, sums);
    const double mean = mean_of_sites([](double x) { return x; });
    sums[kZeroMode] += mean * mean * sites();
    sums[kSquare] += mean_of_sites([](double x) { return x * x; });
    sums[kThird] += mean_of_sites([](double x) { return x * x * x; });
    sums[kFourth] += mean_of_sites([](double x) { return x * x * x * x; });
  }

  [[nodiscard]] std::vector<Row> rows() const override {
    std::vector<Row> rows;
    rows.push_back(with_exact(row_of_square(row_of_mean("variance", kSquare), power_), 1.0));
    Row skewness = row_of_mean("skewness", kThird);
    skewness.value = [](std::span<const double> sums, std::span<const double> /*data*/) {
      return sums[kThird] / sums[0] / std::pow(sums[kSquare] / sums[0], 1.5);
    };
    rows.push_back(with_exact(std::move(skewness), 0.0));
    Row kurtosis = row_of_mean("excess_kurtosis", kFourth);
    kurtosis.value = [](std::span<const double> sums, std::span<const double> /*data*/) {
      const double square = sums[kSquare] / sums[0];
      return sums[kFourth] / sums[0] / (square * square) - 3.0;
    };
    rows.push_back(with_exact(std::move(kurtosis), 0.0));
    Row zero = row_of_mean("power", kZeroMode);
    zero.metric.level = "k 0";
    zero.metric.reference = 0.0;  // each field has the mean 0: nothing to be off by some errors from
    rows.push_back(std::move(zero));
    append_bands(rows, power_);
    return rows;
  }

 private:
  enum Sum : std::size_t { kCount, kZeroMode, kSquare, kThird, kFourth, kSums };

  std::vector<double> power_;
};

}  // namespace

std::unique_ptr<Theory> make_phi4(const TheoryName& name, const Lattice& lattice) {
  const double mass_squared = name.couplings.at("mass-squared");
  const double lambda = name.couplings.at("lambda");
  if (lambda == 0.0 && mass_squared < 1e-6) {
    throw base::ConfigError("--exact {}: the free field (lambda=0) wants a mass-squared of at least 1e-6", name.text);
  }
  return std::make_unique<Phi4Theory>(lattice.sides, mass_squared, lambda);
}

std::unique_ptr<Theory> make_grf(const TheoryName& name, const Lattice& lattice) {
  return std::make_unique<GaussianTheory>(lattice.sides, name.couplings.at("slope"));
}

}  // namespace ddpm::eval
