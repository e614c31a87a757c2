#include "generate/ising.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/pulse.h"

namespace ddpm::generate {
namespace {

/// Where the infinite lattice orders: ln(1 + sqrt 2) / 2 in two dimensions; in three Ferrenberg, Xu, Landau, Physical
/// Review E 97, 043301 (2018).
double critical_beta(std::size_t dimensions) { return dimensions == 2 ? 0.440686793509772 : 0.221654626; }

}  // namespace

Ising::Ising(std::vector<int64_t> sides, std::vector<double> betas, int64_t sweeps, uint64_t seed)
    : CoupledGenerator({"beta", checked_values(std::move(betas), kIsingBeta)}),
      sides_(checked_grid(std::move(sides), kGrid)),
      sweeps_(sweeps),
      seed_(seed),
      lattice_(sides_),
      spins_(lattice_.sites()) {
  expect_number(sweeps, kIsingSweeps);
}

/// Uint8 is shown to models as x / 127.5 - 1: 0 is spin -1, 255 is spin 1.
data::Field Ising::image_field() const {
  return make_image_field(sides_, base::DType::u8,
                          {{.name = "spin", .unit = "", .transform = data::Normalization::of(base::DType::u8)}});
}

base::OrderedJson Ising::description() const {
  return {{"kind", "ising"}, {"sides", sides_}, {"beta", couplings().values}, {"sweeps", sweeps_}};
}

/// Random spins in the disordered phase, equal ones in the ordered one: in both the chain begins near its states.
void Ising::start(double beta, Draws& draws) {
  const auto random_spin = [&] { return static_cast<int8_t>((draws.word() >> 31U) != 0 ? 1 : -1); };
  if (beta < critical_beta(sides_.size())) {
    std::ranges::generate(spins_, random_spin);
  } else {
    std::ranges::fill(spins_, random_spin());
  }
}

std::size_t Ising::turn_one(uint32_t threshold, Draws& draws) {
  base::pulse();
  const auto joins = [&](uint32_t site, uint32_t neighbour) {
    return spins_[site] != spins_[neighbour] && draws.word() < threshold;  // the site is turned already
  };
  return turn_cluster(lattice_, draws, stack_, joins,
                      [this](uint32_t site) { spins_[site] = static_cast<int8_t>(-spins_[site]); });
}

void Ising::make(int64_t sample, std::span<std::byte> image) {
  const double beta = couplings().of(sample);
  Draws draws(seed_, sample);
  start(beta, draws);
  const auto threshold = static_cast<uint32_t>(std::min(-std::expm1(-2.0 * beta) * 0x1p32, 0x1p32 - 1.0));
  const auto half = static_cast<std::size_t>(sweeps_) * lattice_.sites() / 2;
  int64_t clusters = 0;
  for (std::size_t turned = 0; turned < half; ++clusters) turned += turn_one(threshold, draws);
  for (; clusters > 0; --clusters) turn_one(threshold, draws);
  std::ranges::transform(spins_, image.begin(),
                         [](int8_t spin) { return std::byte{spin > 0 ? uint8_t{255} : uint8_t{0}}; });
}

}  // namespace ddpm::generate
