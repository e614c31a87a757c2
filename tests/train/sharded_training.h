// A tiny UNet trained for some steps with any layout of ranks, for comparison with the same training on one rank.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "parallel/config.h"

namespace ddpm::train::test {

struct TrainingCase {
  parallel::ParallelConfig parallel = {};
  int64_t micro_size = 1;
  bool reproducible = false;
  std::string mixed_precision = "no";
  double eps = 1e-4;  ///< Adam's: its default turns the rounding of gradients that are zero in truth into steps
  std::string text() const;
};

struct TrainingResult {
  at::Tensor weights;  ///< the whole flat master weights, in an order that no layout changes
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  int64_t state_bytes = 0;  ///< weights, gradients, moments and averages that this rank holds
};

inline constexpr int64_t kGlobalSize = 12;

/// Trains on the ranks of `comm` for `steps` steps of kGlobalSize images each. Collective.
TrainingResult train(const TrainingCase& chosen, comm::Communicator& comm, int steps);

/// ‖a − b‖ / ‖b‖
double relative_distance(const at::Tensor& a, const at::Tensor& b);

}  // namespace ddpm::train::test
