// Sums over samples, and the errors of any numbers that are computed from them.
//
// A statistic here is a function of sums over units: samples, or conditions with all their members. The units are cut
// into blocks, of one unit each where they are independent and there are not too many of them; which blocks there are
// depends on the numbers of units and of sums alone, and each is summed by one rank in the order of its units. So all
// sums have the same bits on any number of ranks. Leaving out one block after the other gives the jackknife's error of
// any statistic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "eval/estimate.h"
#include "eval/left_out.h"
#include "layout/range.h"

namespace ddpm::eval {

class BlockSums {
 public:
  /// `width` sums over so many units, of which `together` successive ones and more are in one block, since their errors
  /// go together.
  BlockSums(int64_t units, std::size_t width, int64_t together = 1);

  /// Calls `add` for each unit of this rank's blocks, in order, with the sums of its block.
  void fill(const comm::Communicator& comm, const std::function<void(int64_t unit, std::span<double> sums)>& add);
  /// Has every rank hold all blocks. Collective.
  void share(comm::Communicator& comm);

  [[nodiscard]] int64_t units() const { return units_; }
  [[nodiscard]] int64_t blocks() const { return blocks_; }
  [[nodiscard]] std::size_t width() const { return width_; }
  /// The sums over all units; after share().
  [[nodiscard]] std::span<const double> total() const { return total_; }
  /// The sums over the units of a block.
  [[nodiscard]] std::span<const double> of_block(int64_t block) const;
  /// The sums over all units but those of a block.
  void leave_out(int64_t block, std::span<double> out) const;

 private:
  [[nodiscard]] std::span<double> sums_of(int64_t block);

  int64_t units_;
  std::size_t width_;
  int64_t blocks_;
  std::vector<double> sums_;
  std::vector<double> total_;
};

/// The sums over some units, `width` of them.
using Sums = std::span<const double>;

/// A number computed from the sums of a sample set and, where these are sums of their own, from those of the data.
using Statistic = std::function<double(Sums samples, Sums data)>;

/// What has been summed.
struct Evidence {
  std::vector<BlockSums> a;       ///< sums of each sample set of one model
  std::vector<BlockSums> b;       ///< sums of each sample set of another model that it is compared with; may be empty
  std::optional<BlockSums> data;  ///< sums over data that are not part of the sample sets' units
  /// Unit u is the same condition in all sets, whose errors go together; otherwise sets are independent.
  bool same_units = false;

  /// Whether all sample sets have as many units.
  [[nodiscard]] bool of_one_size() const;
};

/// Each statistic of one set, and what it is without each block of its units, and of the data's.
std::vector<LeftOut> left_out_of(const BlockSums& set, const std::optional<BlockSums>& data,
                                 std::span<const Statistic> statistics);

/// The mean of each statistic over the sets of A, with its error over units, sets and data.
std::vector<Estimate> estimates_of(const Evidence& evidence, std::span<const Statistic> statistics);
/// The estimates of one set alone, of statistics that ask for nothing else.
std::vector<Estimate> estimates_of(const BlockSums& set, std::span<const Statistic> statistics);

/// A statistic of A, of B, and of A less B with its error.
struct Difference {
  double a = 0.0;
  double b = 0.0;
  Estimate difference;
  /// One of both is infinite in every set, whichever units are left out, and the other is finite in all: there is no
  /// error to count in, and no doubt.
  bool certain = false;
};
std::vector<Difference> differences_of(const Evidence& evidence, std::span<const Statistic> statistics);

}  // namespace ddpm::eval
