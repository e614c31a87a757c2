// The couplings of theories: options of `ddpm data generate` and parts of `ddpm eval fields --exact`.
#pragma once

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

}  // namespace ddpm::generate
