// Whether samples are copies of what a model was trained on: the nearest picture of its training set to each sample,
// beside the same of pictures that it was not trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/progress_report.h"
#include "comm/communicator.h"
#include "eval/groups.h"
#include "eval/left_out.h"
#include "eval/neighbours.h"

namespace ddpm::eval {

/// A set of rows that is read by parts, on any rank alone.
struct Rows {
  int64_t count = 0;
  std::function<at::Tensor(int64_t first, int64_t n)> read;  ///< float32 [n, D]
};
/// Rows of a table [N, D] that is in memory.
Rows rows_of(const at::Tensor& table);

/// The numbers are root mean squares over the D values of a row, so that they do not depend on its length.
struct Memorisation {
  std::vector<Neighbour> nearest;    ///< training picture nearest to each sample; the distance is Euclidean
  std::vector<double> distances;     ///< distance of each sample to that picture
  std::vector<double> of_reference;  ///< likewise for held-out pictures, or from training pictures to the others
  // With held-out pictures:
  /// How often a sample is nearer to the training set than a held-out picture is, over all pairs: 1/2 where the model
  /// has learned no more of the training set than of its distribution (Meehan, Chaudhuri, Dasgupta, "A non-parametric
  /// test to detect data-copying in generative models", 2020).
  std::optional<LeftOut> nearer = {};  ///< held-out pictures are the shared units
  /// For each sample 1 if it is nearer to its nearest training picture than each held-out picture is to that one.
  std::vector<double> copies = {};
  std::vector<double> copies_of_reference = {};  ///< likewise for each held-out picture, compared with the others
};

/// Training pictures whose nearest others are looked for, where there are no held-out ones.
inline constexpr int64_t kOwnNeighbours = 2000;

/// `samples` are [N, D] in float32, and `held_out` [V, D], with V above 1, or undefined. `train` has 2 rows at least.
/// The result has the same bits on any number of ranks. Collective.
Memorisation find_memorised(comm::Communicator& world, const at::Tensor& samples, const Rows& train,
                            const at::Tensor& held_out, const base::ProgressReport& progress = {});

/// The share of pairs with a < b, ties half, where b are the shared units: its error is DeLong's for the area under a
/// curve. a[i] is of sample i.
LeftOut share_below(const std::vector<double>& a, const std::vector<double>& b, const SampleUnits& units = {});

}  // namespace ddpm::eval
