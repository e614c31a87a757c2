#include "data/value_tally.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace ddpm::data {
namespace {

constexpr std::size_t kLanes = 8;

/// Adds up in several sums, which a processor takes at once; their order depends on nothing but the number of values.
template <typename Function>
double sum_in_lanes(std::span<const float> values, Function of) {
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += of(values[i + lane]);
  }
  for (std::size_t lane = 0; i < values.size(); ++i, ++lane) sums[lane] += of(values[i]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

constexpr uint32_t kSignBit = uint32_t{1} << 31U;
constexpr uint32_t kCoarseShift = 20;
constexpr uint32_t kFineShift = 8;

/// Integers in the order of the values.
uint32_t order_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & kSignBit) == 0 ? bits | kSignBit : ~bits;
}

/// The value of a cell that is nearest to 0.
double value_of_cell(std::size_t coarse, std::size_t fine) {
  const auto order = static_cast<uint32_t>(coarse << kCoarseShift | fine << kFineShift);
  const uint32_t bits = (order & kSignBit) != 0 ? order & ~kSignBit : ~order & ~((uint32_t{1} << kFineShift) - 1);
  return double{std::bit_cast<float>(bits)} + 0.0;  // no negative zero
}

/// Where the values that are in order have place `rank`: the cell, and the place among the cell's values.
std::pair<std::size_t, int64_t> find_rank(std::span<const int64_t> cells, int64_t rank) {
  std::size_t cell = 0;
  while (rank >= cells[cell]) rank -= cells[cell++];
  return {cell, rank};
}

/// Half the width of a histogram of one value. The edges of all bins must differ in double precision.
double half_width_of_one(double value) { return std::max(0.5, std::ldexp(std::abs(value), -20)); }

}  // namespace

double Histogram::edge(std::size_t i) const {
  return i == counts.size() ? high : low + static_cast<double>(i) * width();
}

std::size_t Histogram::bin(double value) const {
  if (!(value > low)) return 0;
  const std::size_t last = counts.size() - 1;
  if (value >= high) return last;
  const std::size_t i = std::min(static_cast<std::size_t>((value - low) / width()), last);
  if (value < edge(i)) return i - 1;
  return i < last && value >= edge(i + 1) ? i + 1 : i;
}

Histogram Histogram::between(double min, double max, std::size_t bins) {
  const double more = min < max ? 0.0 : half_width_of_one(min);
  return {.low = min - more, .high = max + more, .counts = std::vector<int64_t>(bins)};
}

void FirstTally::add(std::span<const float> values) {
  if (values.empty()) return;
  count += std::ssize(values);
  sum.add(sum_in_lanes(values, [](float x) { return double{x}; }));
  const auto [low, high] = std::ranges::minmax(values);
  min = std::min(min, double{low});
  max = std::max(max, double{high});
  for (const float x : values) ++coarse[order_of(x) >> kCoarseShift];
}

SecondTally::SecondTally(const FirstTally& first, const Histogram& empty)
    : total_(first.count), centre_(first.count > 0 ? first.mean() : 0.0), histogram_(empty), slot_of_(kCells, kNoSlot) {
  if (total_ == 0) return;
  for (const int64_t percent : kPercents) {
    // The division comes first, so that nothing overflows.
    const int64_t at_most = total_ / 100 * percent + (total_ % 100 * percent + 99) / 100;
    const auto [cell, within] = find_rank(first.coarse, std::max<int64_t>(at_most, 1) - 1);
    ranks_.push_back({cell, within});
    if (slot_of_[cell] != kNoSlot) continue;
    slot_of_[cell] = fine_.size();
    fine_.emplace_back(kCells);
  }
}

void SecondTally::add(std::span<const float> values) {
  if (values.empty()) return;
  const double c = centre_;
  powers_[0].add(sum_in_lanes(values, [c](float x) { return x - c; }));
  powers_[1].add(sum_in_lanes(values, [c](float x) { return (x - c) * (x - c); }));
  powers_[2].add(sum_in_lanes(values, [c](float x) { return (x - c) * (x - c) * (x - c); }));
  powers_[3].add(sum_in_lanes(values, [c](float x) {
    const double square = (x - c) * (x - c);
    return square * square;
  }));
  for (const float x : values) {
    ++histogram_.counts[histogram_.bin(x)];
    const uint32_t order = order_of(x);
    const std::size_t slot = slot_of_[order >> kCoarseShift];
    if (slot != kNoSlot) ++fine_[slot][order >> kFineShift & (kCells - 1)];
  }
}

std::array<double, 4> SecondTally::mean_powers() const {
  std::array<double, 4> means{};
  for (std::size_t p = 0; p < means.size(); ++p) means[p] = powers_[p].value() / static_cast<double>(total_);
  return means;
}

int64_t SecondTally::count() const {
  return std::accumulate(histogram_.counts.begin(), histogram_.counts.end(), int64_t{0});
}

std::vector<double> SecondTally::quantiles() const {
  std::vector<double> values;
  for (const Rank& rank : ranks_) {
    const std::vector<int64_t>& cells = fine_[slot_of_[rank.coarse]];
    values.push_back(value_of_cell(rank.coarse, find_rank(cells, rank.within).first));
  }
  return values;
}

void SecondTally::append_parts(std::vector<std::span<int64_t>>& parts) {
  for (base::ExactSum& power : powers_) parts.push_back(power.limbs());
  parts.emplace_back(histogram_.counts);
  for (auto& cells : fine_) parts.emplace_back(cells);
}

Moments moments_of(double centre, const std::array<double, 4>& mean_powers) {
  const auto [p1, p2, p3, p4] = mean_powers;
  const double second = std::max(p2 - p1 * p1, 0.0);
  const double third = p3 - 3.0 * p1 * p2 + 2.0 * p1 * p1 * p1;
  const double fourth = p4 - 4.0 * p1 * p3 + 6.0 * p1 * p1 * p2 - 3.0 * p1 * p1 * p1 * p1;
  const double std = std::sqrt(second);
  return {.mean = centre + p1,
          .std = std,
          .skewness = third / (second * std),
          .kurtosis = fourth / (second * second) - 3.0};
}

}  // namespace ddpm::data
