// The couplings of theories, and how long their chains are: options of `ddpm data generate` and parts of `ddpm eval
// fields --exact`.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddpm::generate {

/// A coupling, the values that it may have, and the one that is taken where none is given.
struct Coupling {
  std::string_view name;
  double least;
  double most;
  double default_value;
};

inline constexpr Coupling kGrfSlope = {"slope", -10.0, 20.0, 3.0};
/// By default log(1 + √2) / 2, where the infinite square lattice becomes magnetic (Onsager 1944).
inline constexpr Coupling kIsingBeta = {"beta", 0.0, 10.0, 0.44068679350977151};
inline constexpr Coupling kIsingTemperature = {"temperature", 0.1, 1e6, 1.0 / kIsingBeta.default_value};
inline constexpr Coupling kPhi4MassSquared = {"mass-squared", -20.0, 20.0, 0.1};
inline constexpr Coupling kPhi4Lambda = {"lambda", 0.0, 10.0, 0.1};
inline constexpr Coupling kU1Beta = {"beta", 0.0, 100.0, 1.0};
inline constexpr Coupling kSu2Beta = {"beta", 0.0, 100.0, 2.0};
inline constexpr Coupling kGrayScottFeed = {"feed", 0.0, 0.2, 0.04};
inline constexpr Coupling kGrayScottKill = {"kill", 0.0, 0.2, 0.06};
inline constexpr Coupling kGrayScottDiffusionU = {"diffusion-u", 0.0, 0.25, 0.16};
inline constexpr Coupling kGrayScottDiffusionV = {"diffusion-v", 0.0, 0.25, 0.08};

/// A number of steps, likewise.
struct Count {
  std::string_view name;
  int64_t least;
  int64_t most;
  int64_t default_value;
};

inline constexpr Count kIsingSweeps = {"sweeps", 2, 1'000'000, 50};
inline constexpr Count kPhi4Trajectories = {"trajectories", 1, 1'000'000, 100};
inline constexpr Count kGrayScottSteps = {"steps", 0, 10'000'000, 5000};

}  // namespace ddpm::generate
