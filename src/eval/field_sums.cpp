#include "eval/field_sums.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace ddpm::eval {
namespace {

/// The values less the mean of the valid ones, 0 at the others.
std::vector<double> centred(std::span<const float> values, std::span<const uint8_t> valid) {
  double sum = 0.0;
  double count = 0.0;
  for (std::size_t p = 0; p < values.size(); ++p) {
    if (valid[p] == 0) continue;
    sum += values[p];
    count += 1.0;
  }
  std::vector<double> rest(values.size());
  for (std::size_t p = 0; p < values.size(); ++p) rest[p] = valid[p] == 0 ? 0.0 : values[p] - sum / count;
  return rest;
}

double distance(std::span<const float> a, std::span<const float> b, std::span<const uint8_t> valid) {
  double sum = 0.0;
  for (std::size_t p = 0; p < b.size(); ++p) {
    if (valid[p] == 0) continue;
    const double d = static_cast<double>(a[p]) - static_cast<double>(b[p]);
    sum += d * d;
  }
  return std::sqrt(sum);
}

/// How many members lie below the truth; where some equal it, it is drawn which of them do.
std::size_t rank_among(std::span<const float> sorted, float y, const base::RandomSequence& random, std::size_t pixel) {
  const auto [begin, end] = std::ranges::equal_range(sorted, y);
  const auto below = static_cast<std::size_t>(begin - sorted.begin());
  const auto equal = static_cast<uint32_t>(end - begin);
  return equal == 0 ? below : below + random.below(equal + 1, pixel);
}

Crps score_of(double to_truth, double between, int64_t members) {
  const auto m = static_cast<double>(members);
  return {.usual = to_truth / m - between / (m * m),
          .fair = to_truth / m - (members > 1 ? between / (m * (m - 1.0)) : 0.0)};
}

}  // namespace

void MarginalSums::add(std::span<const float> values, std::span<const uint8_t> valid, const Marks& marks,
                       data::RadialSpectrum& spectrum, std::span<double> sums) const {
  double of_values = 0.0;
  double of_squares = 0.0;
  int64_t counted = 0;
  std::array<int64_t, kShares.size()> beyond_data{};
  std::array<int64_t, kShares.size()> up_to_own{};
  std::array<int64_t, kShares.size()> equal_to_data{};
  for (std::size_t p = 0; p < values.size(); ++p) {
    if (valid[p] == 0) continue;
    const double x = values[p];
    ++counted;
    of_values += x - marks.centre;
    of_squares += (x - marks.centre) * (x - marks.centre);
    for (std::size_t s = 0; s < kShares.size(); ++s) {
      beyond_data[s] += (kShares[s] < 0.5 ? x < marks.data[s] : x > marks.data[s]) ? 1 : 0;
      up_to_own[s] += x <= marks.own[s] ? 1 : 0;
      equal_to_data[s] += x == marks.data[s] ? 1 : 0;
    }
  }
  if (counted == 0) return;
  sums[count()] += static_cast<double>(counted);
  sums[sum()] += of_values;
  sums[squares()] += of_squares;
  for (std::size_t s = 0; s < kShares.size(); ++s) {
    sums[beyond(s)] += static_cast<double>(beyond_data[s]);
    sums[up_to(s)] += static_cast<double>(up_to_own[s]);
    sums[equal(s)] += static_cast<double>(equal_to_data[s]);
  }
  sums[spectra()] += 1.0;
  const std::span<const double> rings_of_image = spectrum.power(centred(values, valid));
  for (std::size_t ring = 0; ring < rings; ++ring) sums[power() + ring] += rings_of_image[ring];
}

double MarginalSums::deviation(std::span<const double> sums) const {
  const double centre = mean(sums);
  return std::sqrt(std::max(sums[squares()] / sums[count()] - centre * centre, 0.0));
}

Crps crps_of(std::span<const float> sorted, double y) {
  const auto m = static_cast<double>(sorted.size());
  double to_truth = 0.0;
  double between = 0.0;  // sum of distances over pairs i < j: half of that over both orders
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double x = sorted[i];
    to_truth += std::abs(x - y);
    between += (2.0 * static_cast<double>(i) + 1.0 - m) * (x - y);
  }
  return score_of(to_truth, between, std::ssize(sorted));
}

Crps energy_of(std::span<const float> x, std::size_t stride, int64_t members, std::span<const float> y,
               std::span<const uint8_t> valid) {
  const auto member = [&](int64_t i) { return x.subspan(static_cast<std::size_t>(i) * stride, y.size()); };
  double to_truth = 0.0;
  double between = 0.0;
  for (int64_t i = 0; i < members; ++i) {
    to_truth += distance(member(i), y, valid);
    for (int64_t j = 0; j < i; ++j) between += distance(member(i), member(j), valid);
  }
  return score_of(to_truth, between, members);
}

void EnsembleSums::add(std::span<const float> x, std::size_t stride, std::span<const float> y,
                       std::span<const uint8_t> valid, double centre, const Ties& ties, std::span<double> sums) const {
  const base::RandomSequence random(0, base::Stream::rank_ties, ties.variable, ties.condition);
  const std::span<double> mine = sums.subspan(first, size());
  const auto m = static_cast<double>(members);
  std::vector<float> sorted(static_cast<std::size_t>(members));
  std::array<double, Place::conditions> at_pixel{};
  for (std::size_t p = 0; p < y.size(); ++p) {
    if (valid[p] == 0) continue;
    double sum = 0.0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      sorted[i] = x[i * stride + p];
      sum += sorted[i] - centre;
    }
    const double average = sum / m;
    double squares = 0.0;
    for (const float value : sorted) squares += (value - centre - average) * (value - centre - average);
    std::ranges::sort(sorted);
    const double wanted = static_cast<double>(y[p]) - centre;
    const Crps score = crps_of(sorted, y[p]);
    at_pixel = {1.0,
                average,
                average * average,
                wanted,
                wanted * wanted,
                average * wanted,
                (average - wanted) * (average - wanted),
                members > 1 ? squares / (m - 1.0) : 0.0,
                score.usual,
                score.fair};
    for (std::size_t i = 0; i < at_pixel.size(); ++i) mine[i] += at_pixel[i];
    mine[Place::ranks + rank_among(sorted, y[p], random, p)] += 1.0;
  }
  const Crps of_field = energy_of(x, stride, members, y, valid);
  mine[Place::conditions] += 1.0;
  mine[Place::energy] += of_field.usual;
  mine[Place::energy_fair] += of_field.fair;
}

}  // namespace ddpm::eval
