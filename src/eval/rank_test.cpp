#include "eval/rank_test.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/pulse.h"
#include "base/random.h"

namespace ddpm::eval {
namespace {

constexpr int64_t kDraws = 9999;
/// The seed of draws; those of equal values are the numbers of the candidates, 0 and above.
constexpr uint64_t kSeed = 1000;

/// How far a histogram is from a flat one.
double deviation_of(std::span<const double> counts) {
  double all = 0.0;
  for (const double count : counts) all += count;
  const double flat = all / static_cast<double>(counts.size());
  double sum = 0.0;
  for (const double count : counts) sum += (count - flat) * (count - flat);
  return sum;
}

void add_to(std::span<double> sums, std::span<const double> numbers) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
}

/// Whether the least p that so many blocks can have is below 1 - kLevel.
bool can_reject(int64_t blocks, std::size_t candidates) {
  return static_cast<double>(blocks) * std::log(static_cast<double>(candidates)) >= -std::log(1.0 - kLevel);
}

}  // namespace

std::size_t ExchangeSums::others() const {
  constexpr std::size_t kFewest = 3;
  constexpr std::size_t kMost = 31;
  constexpr std::size_t kNumbers = 2048;  // of the table, about
  return std::min(static_cast<std::size_t>(members), std::clamp(kNumbers / ranks(), kFewest, kMost));
}

void ExchangeSums::add(std::span<const float> x, std::size_t stride, std::span<const float> y,
                       std::span<const uint8_t> valid, const EnsembleSums::Ties& ties, std::span<double> sums) const {
  std::vector<base::RandomSequence> lots;  // the truth's are those of EnsembleSums
  for (uint64_t seed = 0; seed <= others(); ++seed) {
    lots.emplace_back(seed, base::Stream::rank_ties, ties.variable, ties.condition);
  }
  std::vector<float> values(ranks());  // the truth and the members
  std::vector<float> sorted;
  for (std::size_t p = 0; p < y.size(); ++p) {
    if (valid[p] == 0) continue;
    values[0] = y[p];
    for (std::size_t i = 1; i < values.size(); ++i) values[i] = x[(i - 1) * stride + p];
    sorted = values;
    std::ranges::sort(sorted);
    for (std::size_t number = 0; number <= others(); ++number) {
      const std::size_t member = number == 0 ? 0 : 1 + (number - 1) * static_cast<std::size_t>(members) / others();
      const auto [begin, end] = std::equal_range(sorted.begin(), sorted.end(), values[member]);
      const auto equal = static_cast<uint32_t>(end - begin) - 1;  // others that equal it
      const auto below = static_cast<std::size_t>(begin - sorted.begin());
      const std::size_t rank = equal == 0 ? below : below + lots[number].below(equal + 1, p);
      sums[first + number * ranks() + rank] += 1.0;
    }
  }
}

double exchange_p_value(const BlockSums& sums, const ExchangeSums& at) {
  constexpr double kRounding = 1e-12;
  const std::size_t candidates = at.others() + 1;
  if (!can_reject(sums.blocks(), candidates)) return std::numeric_limits<double>::quiet_NaN();
  const double seen = deviation_of(at.histogram(sums.total(), 0));
  int64_t as_far = 1;  // the truth's own place is one of the draws
  std::vector<double> counts(at.ranks());
  for (int64_t draw = 0; draw < kDraws; ++draw) {
    base::pulse();
    const base::RandomSequence random(kSeed, base::Stream::rank_ties, 0, static_cast<uint64_t>(draw));
    std::ranges::fill(counts, 0.0);
    for (int64_t block = 0; block < sums.blocks(); ++block) {
      const uint32_t number = random.below(static_cast<uint32_t>(candidates), static_cast<uint64_t>(block));
      add_to(counts, at.histogram(sums.of_block(block), number));
    }
    if (deviation_of(counts) >= seen * (1.0 - kRounding)) ++as_far;
  }
  return static_cast<double>(as_far) / static_cast<double>(kDraws + 1);
}

double exchange_p_value(std::span<const BlockSums> sets, const ExchangeSums& at) {
  double least = std::numeric_limits<double>::quiet_NaN();
  for (const BlockSums& set : sets) least = std::fmin(least, exchange_p_value(set, at));
  return std::isnan(least) ? least : std::min(1.0, least * static_cast<double>(sets.size()));
}

void add_rank_test(std::vector<Metric>& metrics, std::size_t first, double p_value) {
  double away = 0.0;
  double errors = 0.0;
  double ranks = 0.0;
  Metric row{.name = "rank_chi2", .level = {}, .estimate = {}};
  for (std::size_t i = first; i < metrics.size(); ++i) {
    const Metric& share = metrics[i];
    if (share.name != "rank_share") continue;
    const double off = share.estimate.value - share.reference.value_or(0.0);
    away += off * off;
    errors += share.estimate.standard_error * share.estimate.standard_error;
    ranks += 1.0;
    row.variable = share.variable;
    row.estimate = share.estimate;
  }
  // Without scatter, as where the truth lies beyond all members everywhere, any deviation is more than chance.
  row.estimate.value = away == 0.0 ? 0.0 : (ranks - 1.0) * away / errors;
  row.estimate.standard_error = row.estimate.low = row.estimate.high = std::nan("");
  row.estimate.method = Method::none;
  row.reference = ranks - 1.0;
  row.p_value = p_value;
  metrics.push_back(std::move(row));
}

}  // namespace ddpm::eval
