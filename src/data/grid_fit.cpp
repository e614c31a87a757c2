#include "data/grid_fit.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "base/error.h"
#include "comm/collectives.h"
#include "data/image_sweep.h"
#include "data/standardize.h"
#include "layout/range.h"

namespace ddpm::data {
namespace {

/// The sums of variables with so many points together are held at once.
constexpr int64_t kMostPointsAtOnce = int64_t{1} << 22;

/// One variable's values at each point. They are added up as shares of the range between the least and the greatest
/// value there, in units of 2^-bits, so that no rounding depends on the order of the images.
struct PointTally {
  std::vector<double> min;
  std::vector<double> max;
  std::vector<int64_t> count;
  std::vector<int64_t> shares;
  std::vector<int64_t> squares;  // sums of the squares of the shares

  explicit PointTally(std::size_t points)
      : min(points, std::numeric_limits<double>::infinity()),
        max(points, -std::numeric_limits<double>::infinity()),
        count(points),
        shares(points),
        squares(points) {}

  void look_first(std::size_t point, double x) {
    min[point] = std::min(min[point], x);
    max[point] = std::max(max[point], x);
    ++count[point];
  }

  void look_again(std::size_t point, double x, int bits) {
    const double range = max[point] - min[point];
    if (!(range > 0.0)) return;
    const double share = std::clamp((x - min[point]) / range, 0.0, 1.0);
    shares[point] += std::llround(std::ldexp(share, bits));
    squares[point] += std::llround(std::ldexp(share * share, bits));
  }

  [[nodiscard]] PointScales scales(const std::vector<int64_t>& sides, int bits) const {
    PointScales result{.sides = sides, .mean = std::vector<float>(min.size()), .std = std::vector<float>(min.size())};
    for (std::size_t p = 0; p < min.size(); ++p) {
      if (count[p] == 0) continue;
      const double range = max[p] - min[p];
      const double unit = std::ldexp(1.0, -bits) / static_cast<double>(count[p]);
      const double mean = static_cast<double>(shares[p]) * unit;
      const double variance = std::max(0.0, static_cast<double>(squares[p]) * unit - mean * mean);
      const ChannelStatistics seen{.mean = min[p] + range * mean, .std = range * std::sqrt(variance)};
      result.mean[p] = static_cast<float>(seen.mean);
      const bool spread = standardized(seen).type == TransformType::standardize && seen.std >= FLT_MIN;
      result.std[p] = spread ? static_cast<float>(seen.std) : 0.0F;
    }
    return result;
  }
};

/// Some variables of a field, in two sweeps over its images.
class GridFit {
 public:
  GridFit(comm::Communicator& comm, const Dataset& dataset, std::size_t field, std::span<const std::size_t> variables)
      : comm_(comm),
        sweep_(dataset, field, {}),
        variables_(variables),
        bits_(62 - static_cast<int>(std::bit_width(static_cast<uint64_t>(sweep_.images())))),
        tallies_(variables.size(), PointTally(static_cast<std::size_t>(sweep_.format().pixels()))) {}

  std::vector<PointScales> run() {
    visit([](PointTally& tally, std::size_t point, double x) { tally.look_first(point, x); });
    for (PointTally& tally : tallies_) {
      comm::all_reduce(comm_, tally.min, comm::ReduceOp::min);
      comm::all_reduce(comm_, tally.max, comm::ReduceOp::max);
      comm::all_reduce(comm_, tally.count, comm::ReduceOp::sum);
    }
    visit([this](PointTally& tally, std::size_t point, double x) { tally.look_again(point, x, bits_); });
    std::vector<PointScales> scales;
    for (PointTally& tally : tallies_) {
      comm::all_reduce(comm_, tally.shares, comm::ReduceOp::sum);
      comm::all_reduce(comm_, tally.squares, comm::ReduceOp::sum);
      scales.push_back(tally.scales(sweep_.format().sides(), bits_));
    }
    return scales;
  }

  /// Whether any value was valid, after run().
  [[nodiscard]] bool found_any() const {
    return std::ranges::any_of(tallies_.front().count, [](int64_t count) { return count > 0; });
  }

 private:
  /// Goes through this rank's images, and hands `look` each valid value of each variable.
  template <typename Look>
  void visit(const Look& look) {
    const auto channels = static_cast<std::size_t>(sweep_.format().channels);
    const auto points = static_cast<std::size_t>(sweep_.format().pixels());
    const auto add = [&](std::span<const std::byte> values, std::span<const std::byte> valid) {
      for (std::size_t i = 0; i < variables_.size(); ++i) {
        for (std::size_t p = 0; p < points; ++p) {
          if (!valid.empty() && valid[p] == std::byte{0}) continue;
          float x = 0.0F;
          std::memcpy(&x, &values[(p * channels + variables_[i]) * sizeof(float)], sizeof(float));
          look(tallies_[i], p, x);
        }
      }
    };
    comm::agree(comm_, [&] {
      sweep_.visit(layout::even_part(sweep_.images(), comm_.size(), comm_.rank()), add, {});
      if (sweep_.unusable() > 0) throw base::DatasetError("{}", sweep_.faults().front());
    });
  }

  comm::Communicator& comm_;
  ImageSweep sweep_;
  std::span<const std::size_t> variables_;
  int bits_;
  std::vector<PointTally> tallies_;
};

}  // namespace

std::vector<PointScales> fit_grids(comm::Communicator& comm, const Dataset& dataset, FieldRole role,
                                   const std::vector<std::size_t>& variables) {
  const std::size_t field = dataset.info().find(role);
  const int64_t points = dataset.info().fields.at(field).format().pixels();
  const auto at_once = static_cast<std::size_t>(std::max<int64_t>(1, kMostPointsAtOnce / points));
  std::vector<PointScales> all;
  for (std::size_t first = 0; first < variables.size(); first += at_once) {
    const auto some = std::span(variables).subspan(first, std::min(at_once, variables.size() - first));
    GridFit fit(comm, dataset, field, some);
    for (PointScales& scales : fit.run()) all.push_back(std::move(scales));
    comm::agree(comm, [&] {
      if (fit.found_any()) return;
      throw base::DatasetError("{}: {}", dataset.path().string(), kNothingValid);
    });
  }
  return all;
}

}  // namespace ddpm::data
