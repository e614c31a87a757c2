#include "generate/periodic_lattice.h"

#include "base/check.h"

namespace ddpm::generate {

PeriodicLattice::PeriodicLattice(const std::vector<int64_t>& sides) : coordination_(2 * sides.size()) {
  for (const int64_t side : sides) {
    DDPM_CHECK(side >= 3, "a side of {}", side);
    sites_ *= static_cast<uint32_t>(side);
  }
  neighbours_.reserve(sites_ * coordination_);
  for (uint32_t site = 0; site < sites_; ++site) {
    uint32_t stride = 1;
    for (std::size_t axis = sides.size(); axis-- > 0;) {
      const auto side = static_cast<uint32_t>(sides[axis]);
      const uint32_t at = site / stride % side;
      neighbours_.push_back(at + 1 < side ? site + stride : site - at * stride);
      neighbours_.push_back(at > 0 ? site - stride : site + (side - 1) * stride);
      stride *= side;
    }
  }
}

}  // namespace ddpm::generate
