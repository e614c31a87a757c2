// Averages of the weights of any length, made after training from snapshots of a few (Karras et al. 2024, "Analyzing
// and improving the training dynamics of diffusion models", arXiv 2312.02696, sections 3.1 and 3.2, appendix C).
//
// The average at time t of a power function weighs the weights of time s <= t by p(s) = (gamma + 1) / t (s / t)^gamma.
// Its relative length is the standard deviation of p over t: sigma_rel = (gamma + 1)^(1/2) (gamma + 2)^-1 (gamma +
// 3)^-1/2.
#pragma once

#include <span>
#include <vector>

namespace ddpm::optim {

/// Relative lengths that are taken. The longest, of all weights alike, has 1 / sqrt(12).
inline constexpr double kLeastLength = 0.001;
inline constexpr double kGreatestLength = 0.288;

/// The gamma of a relative length.
double power_of_length(double relative_length);

/// An average by a power function, at a time.
struct PowerAverage {
  double updates;  ///< t, more than 0
  double gamma;
};

struct Reconstruction {
  std::vector<double> shares;  ///< what each snapshot is multiplied by in the sum
  double error = 0.0;          ///< relative error of the sum's profile over time, by norms of functions of time
};

/// The shares with which the sum of `snapshots`, of which no two are alike, comes nearest to `wanted`: least squares.
Reconstruction reconstruct(std::span<const PowerAverage> snapshots, const PowerAverage& wanted);

}  // namespace ddpm::optim
