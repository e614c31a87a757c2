// The kernel distance of two sets of features (KID; Bińkowski, Sutherland, Arbel, Gretton, "Demystifying MMD GANs",
// 2018): the unbiased estimate of the squared maximum mean discrepancy with the kernel k(x, y) = (x·y / D + 1)³. Its
// mean is 0 for two sets of one distribution, so single values may be below 0. Samples of one condition are more alike
// than others: pairs of samples are those of different units.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "eval/estimate.h"
#include "eval/groups.h"
#include "eval/left_out.h"

namespace ddpm::eval {

struct KernelDistance {
  LeftOut whole;  ///< over all samples and all data, which are the shared units
  /// The mean over kKernelSubsets random subsets of kKernelSubset features of both, as it is usually reported. The
  /// error is the deviation of the subsets' values, and the ends are those between which 95 % of them lie: subsets of
  /// one set are not independent. Their pairs are of whatever units. None where a set has no more features than that.
  std::optional<Estimate> subsets = {};
};

inline constexpr int64_t kKernelSubsets = 100;
inline constexpr int64_t kKernelSubset = 1000;  ///< features of each

/// `samples` [N, D] and `data` [M, D] are float64; N and M are above 2. Of one unit alone the pairs are those of its
/// samples, and the error is not known. The same bits on any number of ranks. Collective.
KernelDistance kernel_distance(comm::Communicator& world, const at::Tensor& samples, const at::Tensor& data,
                               const SampleUnits& units = {});

}  // namespace ddpm::eval
