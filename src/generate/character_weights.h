// The characters' coefficients in the plaquette weights of Wilson's action.
#pragma once

#include <cstddef>
#include <vector>

namespace ddpm::generate {

/// ln(I_n(x) / I_first(x)) for n = first, first + 1, ... while the quotient is above 1e-18: modified Bessel functions
/// of the first kind, x > 0. By the continued fraction of I_n / I_(n-1), from above, where it is stable.
std::vector<double> log_bessel_ratios(double x, std::size_t first);

}  // namespace ddpm::generate
