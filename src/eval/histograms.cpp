#include "eval/histograms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "comm/collectives.h"

namespace ddpm::eval {
namespace {

constexpr int64_t kBlock = 64;  // pictures that are read at once

/// The distribution of one channel's values.
struct LevelShares {
  std::vector<double> of_level;
  double beyond = 0.0;  ///< mean way in steps from values outside of the levels to these
};

/// Without one group; -1: of all.
LevelShares shares_of(const PixelHistograms& histograms, int64_t channel, int64_t without_group = -1) {
  LevelShares shares{.of_level = std::vector<double>(PixelLevels::kCount)};
  double total = 0.0;
  for (int64_t group = 0; group < histograms.groups; ++group) {
    if (group == without_group) continue;
    const auto row = static_cast<std::size_t>(group * histograms.channels + channel);
    for (std::size_t level = 0; level < shares.of_level.size(); ++level) {
      const auto count = static_cast<double>(histograms.counts[row * shares.of_level.size() + level]);
      shares.of_level[level] += count;
      total += count;
    }
    shares.beyond += static_cast<double>(histograms.beyond[row]);
  }
  for (double& share : shares.of_level) share /= total;
  shares.beyond /= total;
  return shares;
}

/// From the data, none of whose values lie outside of the levels: what does has to go there first.
double distance(const LevelShares& samples, const LevelShares& data, double step) {
  double ahead = 0.0;  // how far the first distribution function is above the second
  double sum = samples.beyond;
  for (std::size_t i = 0; i + 1 < data.of_level.size(); ++i) {
    ahead += samples.of_level[i] - data.of_level[i];
    sum += std::abs(ahead);
  }
  return sum * step;
}

void count_value(float value, const PixelLevels& levels, int64_t* counts, int64_t& beyond) {
  constexpr double kFarthest = 1e9;  // steps, so that no sum of them overflows
  constexpr int64_t kLast = PixelLevels::kCount - 1;
  const double steps = std::round((static_cast<double>(value) - levels.low) / levels.step());
  const auto place = static_cast<int64_t>(std::clamp(steps, -kFarthest, kFarthest));
  const int64_t level = std::clamp<int64_t>(place, 0, kLast);
  ++counts[level];
  beyond += std::abs(place - level);
}

}  // namespace

PixelLevels pixel_levels(comm::Communicator& world, const PictureSet& pictures, const base::ProgressReport& progress) {
  if (pictures.set().holds_bytes()) return {};
  std::array ends = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};  // low, -high
  for_each_block(
      world, pictures, kBlock,
      [&](layout::Range /*range*/, const at::Tensor& block) {
        ends[0] = std::min(ends[0], block.min().item<double>());
        ends[1] = std::min(ends[1], -block.max().item<double>());
      },
      progress);
  comm::all_reduce(world, ends, comm::ReduceOp::min);
  // Any width does for a constant picture.
  return {.low = ends[0], .high = -ends[1] > ends[0] ? -ends[1] : ends[0] + 1.0};
}

PixelHistograms pixel_histograms(comm::Communicator& world, const PictureSet& pictures, const SampleUnits& units,
                                 const PixelLevels& levels, const base::ProgressReport& progress) {
  const auto members = random_groups(pictures.size(), units);
  std::vector<int64_t> group_of(static_cast<std::size_t>(pictures.size()));
  for (std::size_t group = 0; group < members.size(); ++group) {
    for (const int64_t i : members[group]) group_of[static_cast<std::size_t>(i)] = static_cast<int64_t>(group);
  }
  PixelHistograms result{
      .groups = std::ssize(members), .channels = pictures.set().channels(), .counts = {}, .beyond = {}};
  result.counts.resize(static_cast<std::size_t>(result.groups * result.channels * PixelLevels::kCount));
  result.beyond.resize(static_cast<std::size_t>(result.groups * result.channels));
  const int64_t pixels = pictures.set().pixels();
  for_each_block(
      world, pictures, kBlock,
      [&](layout::Range range, const at::Tensor& block) {
        const float* value = block.const_data_ptr<float>();
        for (int64_t i = range.begin; i < range.end; ++i) {
          for (int64_t c = 0; c < result.channels; ++c) {
            const int64_t row = group_of[static_cast<std::size_t>(i)] * result.channels + c;
            int64_t* counts = result.counts.data() + row * PixelLevels::kCount;
            int64_t& beyond = result.beyond[static_cast<std::size_t>(row)];
            for (int64_t p = 0; p < pixels; ++p) count_value(*value++, levels, counts, beyond);
          }
        }
      },
      progress);
  comm::all_reduce(world, result.counts, comm::ReduceOp::sum);
  comm::all_reduce(world, result.beyond, comm::ReduceOp::sum);
  return result;
}

std::vector<LeftOut> histogram_distances(const PixelHistograms& samples, const PixelHistograms& data,
                                         const PixelLevels& levels) {
  std::vector<LeftOut> distances;
  for (int64_t c = 0; c < samples.channels; ++c) {
    const LevelShares wanted = shares_of(data, c);
    LeftOut number{.whole = distance(shares_of(samples, c), wanted, levels.step())};
    for (int64_t group = 0; samples.groups > 1 && group < samples.groups; ++group) {
      number.without.push_back(distance(shares_of(samples, c, group), wanted, levels.step()));
    }
    distances.push_back(std::move(number));
  }
  return distances;
}

}  // namespace ddpm::eval
