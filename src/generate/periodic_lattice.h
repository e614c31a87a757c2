// The sites of a periodic lattice, their neighbours, and clusters of sites.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "generate/draws.h"

namespace ddpm::generate {

class PeriodicLattice {
 public:
  /// Sides of at least 3, so that a site's neighbours differ; the last axis is the fastest.
  explicit PeriodicLattice(const std::vector<int64_t>& sides);

  [[nodiscard]] uint32_t sites() const { return sites_; }
  /// The two neighbours along each axis.
  [[nodiscard]] std::span<const uint32_t> neighbours(uint32_t site) const {
    return std::span(neighbours_).subspan(site * coordination_, coordination_);
  }

 private:
  uint32_t sites_ = 1;
  std::size_t coordination_;
  std::vector<uint32_t> neighbours_;
};

/// Wolff's cluster: "Collective Monte Carlo updating for spin systems", Physical Review Letters 62, 361 (1989). From a
/// random site on, `joins(site, neighbour)` decides for each bond whether the neighbour joins, and `flip(site)` turns
/// each site as it joins, after which joins() must be false of it. Returns the number of sites. `stack` is memory.
template <typename Joins, typename Flip>
std::size_t turn_cluster(const PeriodicLattice& lattice, Draws& draws, std::vector<uint32_t>& stack, const Joins& joins,
                         const Flip& flip) {
  stack.assign(1, draws.below(lattice.sites()));
  flip(stack.back());
  std::size_t size = 1;
  while (!stack.empty()) {
    const uint32_t site = stack.back();
    stack.pop_back();
    for (const uint32_t neighbour : lattice.neighbours(site)) {
      if (!joins(site, neighbour)) continue;
      flip(neighbour);
      stack.push_back(neighbour);
      ++size;
    }
  }
  return size;
}

}  // namespace ddpm::generate
