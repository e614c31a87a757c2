#include "eval/field_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

namespace ddpm::eval {
namespace {

/// A share as people write it: "0.1 %".
std::string percent(double share) { return fmt::format("{:.6g} %", 100.0 * share); }

/// Makes the rows of one variable.
class RowMaker {
 public:
  explicit RowMaker(const VariableSums& variable) : v_(variable), bands_(bands_of(variable.samples.rings)) {}

  std::vector<Row> all() {
    add_moments();
    if (v_.ensemble) add_ensemble();
    add_tails();
    add_spectrum();
    return std::move(rows_);
  }

 private:
  using Place = EnsembleSums::Place;
  using OfBoth = double (*)(const MarginalSums&, Sums);

  Row& add(const std::string& name, Statistic value, const std::string& unit = {}) {
    Row row{.metric = {.name = name, .variable = v_.name, .level = {}, .unit = unit, .estimate = {}},
            .value = std::move(value)};
    return rows_.emplace_back(std::move(row));
  }

  /// A number of the samples, and of the data.
  [[nodiscard]] Statistic of_samples(std::function<double(const MarginalSums&, Sums)> number) const {
    return [at = v_.samples, number = std::move(number)](Sums samples, Sums /*data*/) { return number(at, samples); };
  }
  [[nodiscard]] Statistic of_data(std::function<double(const MarginalSums&, Sums)> number) const {
    return [at = v_.data, apart = v_.data_apart, number = std::move(number)](Sums samples, Sums data) {
      return number(at, apart ? data : samples);
    };
  }

  static Statistic combined(Statistic a, Statistic b, double (*how)(double, double)) {
    return [a = std::move(a), b = std::move(b), how](Sums samples, Sums data) {
      return how(a(samples, data), b(samples, data));
    };
  }
  static Statistic changed(Statistic a, double (*how)(double)) {
    return [a = std::move(a), how](Sums samples, Sums data) { return how(a(samples, data)); };
  }
  static double distance_of_ratio(double ratio) { return std::abs(std::log(ratio)); }

  void add_moments() {
    const auto mean = [](const MarginalSums& at, Sums sums) { return at.mean(sums); };
    const auto deviation = [](const MarginalSums& at, Sums sums) { return at.deviation(sums); };
    const Statistic bias =
        combined(of_samples(mean), of_data(mean), [](double of_model, double of_truth) { return of_model - of_truth; });
    Row& first = add("bias", bias, v_.unit);
    first.exact = 0.0;
    first.distance = changed(bias, [](double x) { return std::abs(x); });
    const Statistic ratio = combined(of_samples(deviation), of_data(deviation),
                                     [](double of_model, double of_truth) { return of_model / of_truth; });
    Row& second = add("deviation_ratio", ratio);
    second.exact = 1.0;
    second.distance = changed(ratio, distance_of_ratio);
  }

  [[nodiscard]] Statistic of_ensemble(double (*number)(const EnsembleSums&, Sums)) const {
    return [at = *v_.ensemble, number](Sums samples, Sums /*data*/) { return number(at, samples); };
  }
  /// A mean over pixels, or over conditions, that is a score: less is better.
  template <Place kSum, Place kCount>
  void add_score(const std::string& name) {
    Row& row = add(
        name, of_ensemble([](const EnsembleSums& at, Sums sums) { return at.of(sums, kSum) / at.of(sums, kCount); }),
        v_.unit);
    row.distance = row.value;
  }

  void add_ensemble() {
    using enum EnsembleSums::Place;
    Row& correlation = add("correlation", of_ensemble([](const EnsembleSums& at, Sums sums) {
                             const double n = at.of(sums, pixels);
                             const double a = at.of(sums, mean) / n;
                             const double b = at.of(sums, truth) / n;
                             const double variances =
                                 (at.of(sums, mean_squares) / n - a * a) * (at.of(sums, truth_squares) / n - b * b);
                             return (at.of(sums, product) / n - a * b) / std::sqrt(variances);
                           }));
    correlation.distance = changed(correlation.value, [](double r) { return 1.0 - r; });
    Row& rmse = add("rmse", of_ensemble([](const EnsembleSums& at, Sums sums) {
                      return std::sqrt(at.of(sums, error_squares) / at.of(sums, pixels));
                    }),
                    v_.unit);
    rmse.distance = rmse.value;
    add_score<Place::crps, Place::pixels>("crps");
    if (v_.ensemble->members > 1) add_score<Place::crps_fair, Place::pixels>("crps_fair");
    add_score<Place::energy, Place::conditions>("energy_score");
    if (v_.ensemble->members > 1) {
      add_score<Place::energy_fair, Place::conditions>("energy_score_fair");
      add_spread();
    }
  }

  /// Spread over skill is 1 where members and truth are of one distribution: Fortin and others, Journal of
  /// Hydrometeorology 15, 1708 (2014).
  void add_spread() {
    using enum EnsembleSums::Place;
    Row& row = add("spread_skill", of_ensemble([](const EnsembleSums& at, Sums sums) {
                     const auto m = static_cast<double>(at.members);
                     return std::sqrt((m + 1.0) / m * at.of(sums, variance) / at.of(sums, error_squares));
                   }));
    row.exact = 1.0;
    row.distance = changed(row.value, distance_of_ratio);
    for (std::size_t r = 0; r <= static_cast<std::size_t>(v_.ensemble->members); ++r) {
      Row& share = add("rank_share", [at = *v_.ensemble, r](Sums samples, Sums /*data*/) {
        return at.rank(samples, r) / at.of(samples, pixels);
      });
      share.metric.level = static_cast<int64_t>(r);
      share.metric.detail = true;
      share.exact = 1.0 / static_cast<double>(v_.ensemble->members + 1);
    }
  }

  void add_tails() {
    std::vector<Statistic> parts;
    for (std::size_t s = 0; s < kShares.size(); ++s) {
      if (kShares[s] == 0.5) continue;
      const auto beyond = [s](const MarginalSums& at, Sums sums) { return sums[at.beyond(s)] / sums[at.count()]; };
      Row& row = add(kShares[s] < 0.5 ? "share_below" : "share_above", of_samples(beyond));
      row.metric.level = percent(kShares[s]);
      row.share = true;
      row.reference = of_data(beyond);
      const double nominal = std::min(kShares[s], 1.0 - kShares[s]);
      parts.emplace_back([a = row.value, b = row.reference, nominal](Sums samples, Sums data) {
        return std::abs(a(samples, data) - b(samples, data)) / nominal;
      });
    }
    Row& error = add("tail_error", mean_of_parts(std::move(parts)));
    error.distance = error.value;
    error.by_count = true;
  }

  [[nodiscard]] std::function<double(const MarginalSums&, Sums)> power_of(const Band& band) const {
    return [band, modes = v_.modes](const MarginalSums& at, Sums sums) {
      double power = 0.0;
      double weight = 0.0;
      for (std::size_t ring = band.first; ring <= band.last; ++ring) {
        const auto n = static_cast<double>(modes[ring]);
        power += n * sums[at.power() + ring];
        weight += n;
      }
      return power / (weight * sums[at.spectra()]);
    };
  }

  void add_spectrum() {
    std::vector<Statistic> parts;
    for (const Band& band : bands_) {
      Row& power = add("power", of_samples(power_of(band)));
      power.metric.level = band.name();
      power.metric.detail = true;
      power.reference = of_data(power_of(band));
      const Statistic ratio =
          combined(power.value, power.reference, [](double of_model, double of_truth) { return of_model / of_truth; });
      Row& error = add("power_error", changed(ratio, [](double x) { return x - 1.0; }));
      error.metric.level = band.name();
      error.exact = 0.0;
      parts.push_back(changed(ratio, distance_of_ratio));
    }
    if (parts.empty()) return;
    Row& error = add("spectrum_error", mean_of_parts(std::move(parts)));
    error.distance = error.value;
    error.by_count = true;
  }

  static Statistic mean_of_parts(std::vector<Statistic> parts) {
    return [parts = std::move(parts)](Sums samples, Sums data) {
      double sum = 0.0;
      for (const Statistic& part : parts) sum += part(samples, data);
      return sum / static_cast<double>(parts.size());
    };
  }

  const VariableSums& v_;
  std::vector<Band> bands_;
  std::vector<Row> rows_;
};

}  // namespace

std::string Band::name() const {
  return first == last ? fmt::format("k {}", first + 1) : fmt::format("k {}-{}", first + 1, last + 1);
}

std::vector<Band> bands_of(std::size_t rings) {
  constexpr std::size_t kBands = 12;
  std::vector<Band> bands;
  std::size_t next = 0;
  for (int b = 1; next < rings; ++b) {
    const double end = std::pow(static_cast<double>(rings), static_cast<double>(b) / kBands);
    const auto rounded = static_cast<std::size_t>(std::lround(end));
    const std::size_t until = rings <= kBands ? next + 1 : std::clamp(rounded, next + 1, rings);
    bands.push_back({.first = next, .last = until - 1});
    next = until;
  }
  return bands;
}

std::vector<Row> field_rows(const VariableSums& variable) { return RowMaker(variable).all(); }

}  // namespace ddpm::eval
