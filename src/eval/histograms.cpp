#include "eval/histograms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "comm/collectives.h"
#include "eval/groups.h"

namespace ddpm::eval {
namespace {

constexpr int64_t kBlock = 64;  // pictures that are read at once

double distance(const std::vector<double>& a, const std::vector<double>& b, double step) {
  double ahead = 0.0;  // how far the first distribution function is above the second
  double sum = 0.0;
  for (std::size_t i = 0; i + 1 < a.size(); ++i) {
    ahead += a[i] - b[i];
    sum += std::abs(ahead);
  }
  return sum * step;
}

std::size_t level_of(float value, const PixelLevels& levels) {
  const double place = std::round((static_cast<double>(value) - levels.low) / levels.step());
  return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(PixelLevels::kCount - 1)));
}

}  // namespace

PixelLevels pixel_levels(comm::Communicator& world, const PictureSet& pictures, const Progress& progress) {
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

std::vector<double> PixelHistograms::shares(int64_t channel, int64_t without_group) const {
  std::vector<double> shares(PixelLevels::kCount);
  double total = 0.0;
  for (int64_t group = 0; group < groups; ++group) {
    if (group == without_group) continue;
    for (int64_t level = 0; level < PixelLevels::kCount; ++level) {
      const auto at = static_cast<std::size_t>((group * channels + channel) * PixelLevels::kCount + level);
      shares[static_cast<std::size_t>(level)] += static_cast<double>(counts[at]);
      total += static_cast<double>(counts[at]);
    }
  }
  for (double& share : shares) share /= total;
  return shares;
}

PixelHistograms pixel_histograms(comm::Communicator& world, const PictureSet& pictures, const PixelLevels& levels,
                                 const Progress& progress) {
  const auto members = random_groups(pictures.size());
  std::vector<int64_t> group_of(static_cast<std::size_t>(pictures.size()));
  for (std::size_t group = 0; group < members.size(); ++group) {
    for (const int64_t i : members[group]) group_of[static_cast<std::size_t>(i)] = static_cast<int64_t>(group);
  }
  PixelHistograms result{.groups = std::ssize(members), .channels = pictures.set().channels(), .counts = {}};
  result.counts.resize(static_cast<std::size_t>(result.groups * result.channels * PixelLevels::kCount));
  const int64_t pixels = pictures.set().pixels();
  for_each_block(
      world, pictures, kBlock,
      [&](layout::Range range, const at::Tensor& block) {
        const float* value = block.const_data_ptr<float>();
        for (int64_t i = range.begin; i < range.end; ++i) {
          for (int64_t c = 0; c < result.channels; ++c) {
            const int64_t row = group_of[static_cast<std::size_t>(i)] * result.channels + c;
            int64_t* counts = result.counts.data() + row * PixelLevels::kCount;
            for (int64_t p = 0; p < pixels; ++p) ++counts[level_of(*value++, levels)];
          }
        }
      },
      progress);
  comm::all_reduce(world, result.counts, comm::ReduceOp::sum);
  return result;
}

std::vector<Estimate> histogram_distances(const PixelHistograms& samples, const PixelHistograms& data,
                                          const PixelLevels& levels, int64_t count) {
  std::vector<Estimate> distances;
  for (int64_t c = 0; c < samples.channels; ++c) {
    const std::vector<double> wanted = data.shares(c);
    std::vector<double> left_out;
    for (int64_t group = 0; samples.groups > 1 && group < samples.groups; ++group) {
      left_out.push_back(distance(samples.shares(c, group), wanted, levels.step()));
    }
    const std::array terms = {jackknife_variance(left_out)};
    distances.push_back(estimate_of(distance(samples.shares(c), wanted, levels.step()), terms, count));
  }
  return distances;
}

}  // namespace ddpm::eval
