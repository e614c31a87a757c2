#include "eval/groups.h"

#include <algorithm>
#include <map>

#include "base/random.h"

namespace ddpm::eval {

SampleUnits SampleUnits::of(std::span<const int64_t> conditions) {
  SampleUnits units;
  std::map<int64_t, int64_t> places;
  for (const int64_t condition : conditions) {
    const auto [place, is_new] = places.emplace(condition, std::ssize(units.conditions));
    if (is_new) units.conditions.push_back(condition);
    units.unit_of.push_back(place->second);
  }
  return units;
}

LeftOut mean_over(std::span<const double> numbers, const SampleUnits& units) {
  if (!units.grouped()) return {.whole = mean_of(numbers).value, .without = means_without(numbers)};
  std::vector<double> sums(units.conditions.size());
  std::vector<double> counts(units.conditions.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto unit = static_cast<std::size_t>(units.unit_of[i]);
    sums[unit] += numbers[i];
    counts[unit] += 1.0;
    sum += numbers[i];
  }
  const auto count = static_cast<double>(numbers.size());
  LeftOut mean{.whole = sum / count};
  for (std::size_t unit = 0; sums.size() > 1 && unit < sums.size(); ++unit) {
    mean.without.push_back((sum - sums[unit]) / (count - counts[unit]));
  }
  return mean;
}

std::vector<std::vector<int64_t>> random_groups(int64_t samples, const SampleUnits& units) {
  const int64_t rows = units.count(samples);
  const auto count = static_cast<std::size_t>(std::min(kJackknifeGroups, rows));
  const base::Permutation order(/*seed=*/0, base::Stream::evaluation_groups, 0, 0, static_cast<uint64_t>(rows));
  std::vector<std::vector<int64_t>> members(count);
  for (int64_t i = 0; i < samples; ++i) {
    members[order(static_cast<uint64_t>(units.of_sample(i))) % count].push_back(i);
  }
  return members;
}

}  // namespace ddpm::eval
