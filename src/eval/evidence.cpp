#include "eval/evidence.h"

#include <algorithm>

#include "base/check.h"
#include "base/pulse.h"
#include "comm/collectives.h"

namespace ddpm::eval {
namespace {

constexpr int64_t kMostBlocks = 1000;
constexpr int64_t kLeastBlocks = 50;
/// Numbers in the blocks of one set: 64 MiB.
constexpr int64_t kMostSums = int64_t{1} << 23;
/// Numbers that are added up over the ranks at once.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;

int64_t blocks_of(int64_t units, std::size_t width) {
  const int64_t affordable = kMostSums / std::max<int64_t>(1, static_cast<int64_t>(width));
  return std::min(units, std::clamp(affordable, kLeastBlocks, kMostBlocks));
}

/// What the statistics are of one set: with all units, and with each block left out of the set or of the data.
struct Table {
  std::vector<double> whole;                      // [statistic]
  std::vector<std::vector<double>> without;       // [statistic][block]
  std::vector<std::vector<double>> without_data;  // [statistic][block of data]
};

std::vector<std::vector<double>> left_out(const BlockSums& sums, std::size_t statistics,
                                          const std::function<double(std::size_t, std::span<const double>)>& value) {
  std::vector<std::vector<double>> values(statistics);
  std::vector<double> rest(sums.width());
  for (int64_t block = 0; sums.blocks() > 1 && block < sums.blocks(); ++block) {
    base::pulse();
    sums.leave_out(block, rest);
    for (std::size_t k = 0; k < statistics; ++k) values[k].push_back(value(k, rest));
  }
  return values;
}

Table table_of(const BlockSums& set, const std::optional<BlockSums>& data, std::span<const Statistic> statistics) {
  const std::span<const double> of_data = data ? data->total() : std::span<const double>{};
  Table table;
  for (const Statistic& statistic : statistics) table.whole.push_back(statistic(set.total(), of_data));
  table.without = left_out(set, statistics.size(),
                           [&](std::size_t k, std::span<const double> rest) { return statistics[k](rest, of_data); });
  if (data) {
    table.without_data = left_out(*data, statistics.size(), [&](std::size_t k, std::span<const double> rest) {
      return statistics[k](set.total(), rest);
    });
  }
  return table;
}

/// One model's sets, whose mean enters with a sign.
struct Side {
  std::vector<Table> sets;
  double sign = 1.0;

  [[nodiscard]] double weight() const { return sign / static_cast<double>(sets.size()); }
  [[nodiscard]] double value(std::size_t k) const {
    double sum = 0.0;
    for (const Table& set : sets) sum += weight() * set.whole[k];
    return sum;
  }
};

void add_weighted(std::vector<double>& sum, const std::vector<double>& values, double weight) {
  sum.resize(std::max(sum.size(), values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += weight * values[i];
}

/// How a statistic differs between the sets of a side.
VarianceTerm between_sets(const Side& side, std::size_t k) {
  std::vector<double> values;
  for (const Table& set : side.sets) values.push_back(set.whole[k]);
  const Estimate mean = mean_of(values);
  return {.variance = mean.standard_error * mean.standard_error, .degrees = mean.degrees};
}

/// The error of the mean over independent sets: what lies between them holds what lies within them, too.
VarianceTerm of_independent_sets(const Side& side, std::size_t k) {
  VarianceTerm within;
  for (const Table& set : side.sets) {
    const VarianceTerm term = jackknife_variance(set.without[k]);
    within.variance += side.weight() * side.weight() * term.variance;
    within.degrees += term.degrees;
  }
  if (side.sets.size() < 2) return within;
  const VarianceTerm between = between_sets(side, k);
  return within.variance > between.variance ? within : between;
}

Estimate combine(std::span<const Side> sides, std::size_t k, bool same_units, int64_t units) {
  double value = 0.0;
  std::vector<double> without;
  std::vector<double> without_data;
  std::vector<VarianceTerm> terms;
  int64_t sets = 0;
  for (const Side& side : sides) {
    value += side.value(k);
    sets = std::max(sets, std::ssize(side.sets));
    for (const Table& set : side.sets) {
      if (same_units) add_weighted(without, set.without[k], side.weight());
      if (!set.without_data.empty()) add_weighted(without_data, set.without_data[k], side.weight());
    }
    if (!same_units) terms.push_back(of_independent_sets(side, k));
    if (same_units && side.sets.size() > 1) terms.push_back(between_sets(side, k));
  }
  if (same_units) terms.push_back(jackknife_variance(without));
  if (!without_data.empty()) terms.push_back(jackknife_variance(without_data));
  Estimate estimate = estimate_of(value, terms, units);
  estimate.sets = sets;
  return estimate;
}

Side side_of(const std::vector<BlockSums>& sets, const std::optional<BlockSums>& data, double sign,
             std::span<const Statistic> statistics) {
  Side side{.sets = {}, .sign = sign};
  for (const BlockSums& set : sets) side.sets.push_back(table_of(set, data, statistics));
  return side;
}

int64_t units_of(const std::vector<BlockSums>& sets, bool same_units) {
  int64_t units = 0;
  for (const BlockSums& set : sets) units = same_units ? set.units() : units + set.units();
  return units;
}

}  // namespace

BlockSums::BlockSums(int64_t units, std::size_t width)
    : units_(units),
      width_(width),
      blocks_(blocks_of(units, width)),
      sums_(static_cast<std::size_t>(blocks_) * width) {}

std::span<double> BlockSums::sums_of(int64_t block) {
  return std::span(sums_).subspan(static_cast<std::size_t>(block) * width_, width_);
}

void BlockSums::fill(const comm::Communicator& comm, const std::function<void(int64_t, std::span<double>)>& add) {
  const layout::Range mine = layout::even_part(blocks_, comm.size(), comm.rank());
  for (int64_t block = mine.begin; block < mine.end; ++block) {
    const layout::Range range = layout::even_part(units_, blocks_, block);
    for (int64_t unit = range.begin; unit < range.end; ++unit) {
      base::pulse();
      add(unit, sums_of(block));
    }
  }
}

void BlockSums::share(comm::Communicator& comm) {
  // A rank has zeros for the blocks of others, and x + 0 is x but for the sign of a zero.
  for (double& sum : sums_) sum += 0.0;
  for (std::size_t first = 0; first < sums_.size(); first += kMostAtOnce) {
    comm::all_reduce(comm, std::span(sums_).subspan(first, std::min(kMostAtOnce, sums_.size() - first)),
                     comm::ReduceOp::sum);
  }
  total_.assign(width_, 0.0);
  for (int64_t block = 0; block < blocks_; ++block) {
    const std::span<const double> sums = sums_of(block);
    for (std::size_t i = 0; i < width_; ++i) total_[i] += sums[i];
  }
}

void BlockSums::leave_out(int64_t block, std::span<double> out) const {
  DDPM_CHECK(out.size() == width_ && total_.size() == width_, "{} of {} sums", out.size(), width_);
  const double* const sums = sums_.data() + static_cast<std::size_t>(block) * width_;
  for (std::size_t i = 0; i < width_; ++i) out[i] = total_[i] - sums[i];
}

bool Evidence::of_one_size() const {
  const auto as_many = [this](const BlockSums& set) { return set.units() == a.front().units(); };
  return std::ranges::all_of(a, as_many) && std::ranges::all_of(b, as_many);
}

std::vector<Estimate> estimates_of(const Evidence& evidence, std::span<const Statistic> statistics) {
  const Side side = side_of(evidence.a, evidence.data, 1.0, statistics);
  std::vector<Estimate> estimates;
  for (std::size_t k = 0; k < statistics.size(); ++k) {
    estimates.push_back(
        combine(std::span(&side, 1), k, evidence.same_units, units_of(evidence.a, evidence.same_units)));
  }
  return estimates;
}

std::vector<Estimate> estimates_of(const BlockSums& set, std::span<const Statistic> statistics) {
  const Table table = table_of(set, std::nullopt, statistics);
  std::vector<Estimate> estimates;
  for (std::size_t k = 0; k < statistics.size(); ++k) {
    const VarianceTerm term = jackknife_variance(table.without[k]);
    estimates.push_back(estimate_of(table.whole[k], std::span(&term, 1), set.units()));
  }
  return estimates;
}

std::vector<Difference> differences_of(const Evidence& evidence, std::span<const Statistic> statistics) {
  const std::vector<Side> sides = {side_of(evidence.a, evidence.data, 1.0, statistics),
                                   side_of(evidence.b, evidence.data, -1.0, statistics)};
  const int64_t units =
      evidence.same_units ? units_of(evidence.a, true) : units_of(evidence.a, false) + units_of(evidence.b, false);
  std::vector<Difference> differences;
  for (std::size_t k = 0; k < statistics.size(); ++k) {
    differences.push_back(
        {.a = sides[0].value(k), .b = -sides[1].value(k), .difference = combine(sides, k, evidence.same_units, units)});
  }
  return differences;
}

}  // namespace ddpm::eval
