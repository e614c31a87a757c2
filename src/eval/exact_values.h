// Expectation values in closed form of what `ddpm data generate` draws from. The theories are those of
// docs/generate.md.
#pragma once

#include <cstdint>

namespace ddpm::eval {

/// Wilson loop <cos(sum of angles)> of an area below `plaquettes`, of U(1) on a torus of so many:
///   sum_k I_k^(N-A) I_(k+1)^A / sum_k I_k^N, k = ... -1, 0, 1 ...
/// The loop of area 1 is the plaquette.
double u1_loop(double beta, int64_t plaquettes, int64_t area);
/// <Q²> of the topological charge of U(1) on a torus. With c(v) = integral of exp(beta cos a) cos(v a) over a turn,
/// Z(theta) = sum_k c(k + theta / 2 pi)^N, and <Q²> = -Z''(0) / Z(0).
double u1_charge_squared(double beta, int64_t plaquettes);
/// Wilson loop <Tr U / 2> of SU(2) on a torus:
///   1/2 sum over n' and n = n' +- 1 of (n / n') I_n^A I_n'^(N-A) / sum_n I_n^N, n = 1, 2 ...
/// from the disk's sum over n (n I_n^A) chi_n and that of the torus with a hole (I_n'^(N-A) / n') chi_n' (Migdal,
/// Soviet Physics JETP 42, 413 (1975)).
double su2_loop(double beta, int64_t plaquettes, int64_t area);
/// What both tend to for many plaquettes: (I_1 / I_0)^A of U(1), (I_2 / I_1)^A of SU(2).
double u1_loop_limit(double beta, int64_t area);
double su2_loop_limit(double beta, int64_t area);

/// Energy per site, -<s s'> summed over both bonds of a site, of the Ising model on a torus: Kaufman, Physical Review
/// 76, 1232 (1949).
double ising_energy(int64_t height, int64_t width, double beta);
/// That of the infinite lattice: Onsager, Physical Review 65, 117 (1944).
double onsager_energy(double beta);
/// |<s>| of the infinite lattice: Yang, Physical Review 85, 808 (1952).
double spontaneous_magnetisation(double beta);

}  // namespace ddpm::eval
