// Samples that are left out together: those of one condition, whose errors are not independent, and groups of samples
// where leaving out each by itself would take too long.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/left_out.h"

namespace ddpm::eval {

/// What of a set is independent of the rest: each sample, or all samples of a condition.
struct SampleUnits {
  std::vector<int64_t> unit_of = {};     ///< of each sample, from 0 on; empty: each sample is one
  std::vector<int64_t> conditions = {};  ///< of each unit

  /// The units of samples with these conditions, in the order of their first samples. No conditions: each sample is
  /// one.
  static SampleUnits of(std::span<const int64_t> conditions);
  [[nodiscard]] bool grouped() const { return !unit_of.empty(); }
  /// How many there are of so many samples.
  [[nodiscard]] int64_t count(int64_t samples) const { return grouped() ? std::ssize(conditions) : samples; }
  [[nodiscard]] int64_t of_sample(int64_t i) const { return grouped() ? unit_of[static_cast<std::size_t>(i)] : i; }
};

/// The mean of numbers of the samples, also without each unit; as means_without() where each sample is one.
LeftOut mean_over(std::span<const double> numbers, const SampleUnits& units);

/// Groups of the jackknife of what is computed from all samples at once.
inline constexpr int64_t kJackknifeGroups = 20;

/// The members of each group of `samples` samples: their units in a random order of a fixed seed, dealt evenly to
/// kJackknifeGroups groups or as many as there are units. Sets may be sorted by class, so that neighbours are not
/// independent.
std::vector<std::vector<int64_t>> random_groups(int64_t samples, const SampleUnits& units = {});

}  // namespace ddpm::eval
