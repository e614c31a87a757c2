#include "eval/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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

/// Calls `take` for each statistic with the sums that are left without each block in turn.
void leave_out_each(const BlockSums& sums, std::size_t statistics,
                    const std::function<void(std::size_t, std::span<const double>)>& take) {
  std::vector<double> rest(sums.width());
  for (int64_t block = 0; sums.blocks() > 1 && block < sums.blocks(); ++block) {
    base::pulse();
    sums.leave_out(block, rest);
    for (std::size_t k = 0; k < statistics; ++k) take(k, rest);
  }
}

/// One model's sets, of each statistic.
std::vector<Side> sides_of(const std::vector<BlockSums>& sets, const std::optional<BlockSums>& data, double sign,
                           std::span<const Statistic> statistics) {
  std::vector<Side> sides(statistics.size(), Side{.sets = {}, .sign = sign});
  for (const BlockSums& set : sets) {
    std::vector<LeftOut> numbers = left_out_of(set, data, statistics);
    for (std::size_t k = 0; k < sides.size(); ++k) sides[k].sets.push_back(std::move(numbers[k]));
  }
  return sides;
}

/// Whether `holds` is true of a number of all sets, whichever units are left out.
bool throughout(const Side& side, bool (*holds)(double)) {
  return std::ranges::all_of(side.sets, [holds](const LeftOut& set) {
    return holds(set.whole) && !set.without.empty() && std::ranges::all_of(set.without, holds) &&
           std::ranges::all_of(set.without_shared, holds);
  });
}

bool are_certain(const Side& a, const Side& b) {
  const auto infinite = [](double x) { return std::isinf(x); };
  const auto finite = [](double x) { return std::isfinite(x); };
  return (throughout(a, infinite) && throughout(b, finite)) || (throughout(a, finite) && throughout(b, infinite));
}

int64_t units_of(const std::vector<BlockSums>& sets, bool same_units) {
  int64_t units = 0;
  for (const BlockSums& set : sets) units = same_units ? set.units() : units + set.units();
  return units;
}

}  // namespace

BlockSums::BlockSums(int64_t units, std::size_t width, int64_t together)
    : units_(units),
      width_(width),
      blocks_(std::min(blocks_of(units, width), std::max<int64_t>(1, units / together))),
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

std::span<const double> BlockSums::of_block(int64_t block) const {
  return std::span(sums_).subspan(static_cast<std::size_t>(block) * width_, width_);
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

std::vector<LeftOut> left_out_of(const BlockSums& set, const std::optional<BlockSums>& data,
                                 std::span<const Statistic> statistics) {
  const std::span<const double> of_data = data ? data->total() : std::span<const double>{};
  std::vector<LeftOut> numbers;
  for (const Statistic& statistic : statistics) numbers.push_back({.whole = statistic(set.total(), of_data)});
  leave_out_each(set, statistics.size(), [&](std::size_t k, std::span<const double> rest) {
    numbers[k].without.push_back(statistics[k](rest, of_data));
  });
  if (!data) return numbers;
  leave_out_each(*data, statistics.size(), [&](std::size_t k, std::span<const double> rest) {
    numbers[k].without_shared.push_back(statistics[k](set.total(), rest));
  });
  return numbers;
}

std::vector<Estimate> estimates_of(const Evidence& evidence, std::span<const Statistic> statistics) {
  const int64_t units = units_of(evidence.a, evidence.same_units);
  std::vector<Estimate> estimates;
  for (const Side& side : sides_of(evidence.a, evidence.data, 1.0, statistics)) {
    estimates.push_back(combine(std::span(&side, 1), evidence.same_units, units));
  }
  return estimates;
}

std::vector<Estimate> estimates_of(const BlockSums& set, std::span<const Statistic> statistics) {
  std::vector<Estimate> estimates;
  for (const LeftOut& number : left_out_of(set, std::nullopt, statistics)) {
    estimates.push_back(estimate_of(number, set.units()));
  }
  return estimates;
}

std::vector<Difference> differences_of(const Evidence& evidence, std::span<const Statistic> statistics) {
  std::vector<Side> of_a = sides_of(evidence.a, evidence.data, 1.0, statistics);
  std::vector<Side> of_b = sides_of(evidence.b, evidence.data, -1.0, statistics);
  const int64_t units =
      evidence.same_units ? units_of(evidence.a, true) : units_of(evidence.a, false) + units_of(evidence.b, false);
  std::vector<Difference> differences;
  for (std::size_t k = 0; k < statistics.size(); ++k) {
    const std::array sides = {std::move(of_a[k]), std::move(of_b[k])};
    differences.push_back({.a = sides[0].value(),
                           .b = -sides[1].value(),
                           .difference = combine(sides, evidence.same_units, units),
                           .certain = are_certain(sides[0], sides[1])});
  }
  return differences;
}

}  // namespace ddpm::eval
