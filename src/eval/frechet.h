// The Fréchet distance of two sets of features, each taken for a Gaussian:
//
//   d = |μ₁ - μ₂|² + tr C₁ + tr C₂ - 2 tr (C₁ C₂)^½
//
// (Dowson & Landau 1982; Heusel et al., "GANs trained by a two time-scale update rule converge to a local Nash
// equilibrium", 2017). Of few samples it is too large by about b / N; `unbiased` is the value that N → ∞ leads to, as
// Chong & Forsyth, "Effectively unbiased FID and Inception Score and where to find them", 2020, ask for it.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "eval/estimate.h"
#include "eval/groups.h"

namespace ddpm::eval {

/// Mean [D] and covariance [D, D] (that of N - 1, as numpy.cov has it) of `count` features, float64.
struct GaussianFit {
  int64_t count = 0;
  at::Tensor mean;
  at::Tensor covariance;
};
/// `features` is float64 [N, D] with N above 1.
GaussianFit fit_gaussian(const at::Tensor& features);

/// Measures the distance to one set of features. tr (C₁ C₂)^½ is the sum of the roots of the eigenvalues of the
/// symmetric C₁^½ C₂ C₁^½; eigenvalues below their own rounding error count as 0.
class FrechetReference {
 public:
  explicit FrechetReference(const GaussianFit& reference);
  [[nodiscard]] double distance(const GaussianFit& other) const;

 private:
  at::Tensor mean_;
  at::Tensor root_;  // C^½
  double trace_ = 0.0;
};

/// Both errors are over samples: the jackknife with groups (groups.h). The data is taken as it is.
struct FrechetDistance {
  Estimate measured;
  Estimate unbiased;             ///< extrapolated to infinitely many samples
  std::vector<double> left_out;  ///< what is measured without each group; NaN where fewer than 2 samples are left
};

/// The distance of `samples` [N, D] from `data` [M, D], float64. N and M are above 2. The groups of the samples' units
/// are drawn at random with a fixed seed. The same bits on any number of ranks. Collective.
FrechetDistance frechet_distance(comm::Communicator& world, const at::Tensor& samples, const at::Tensor& data,
                                 const SampleUnits& units = {});

}  // namespace ddpm::eval
