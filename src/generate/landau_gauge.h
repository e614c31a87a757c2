// Links in Landau's gauge: neighbours become alike, as far as the plaquettes let them. In a random gauge each link
// alone is uniform on the group, and all that a sample holds is in products of four links, which networks are slow to
// find.
#pragma once

#include <array>
#include <cstddef>

#include "generate/torus_links.h"

namespace ddpm::generate {

/// Transforms the links of a torus to a maximum of the sum of Re Tr U over all links: site by site, each further than
/// to its own maximum, by the power 2 / (1 + 2.2 / side) of its transformation (Mandula, Ogilvie, Physics Letters B
/// 248, 156 (1990)). It is one of many maxima (Gribov's copies): that to which the links' gauge before leads. What does
/// not depend on the gauge stays as it was, but for rounding.
///
/// Beside what torus_links.h asks of it, a group has Re Tr, as a part of its dimension, as real_trace(element), and
/// aligning(elements, power): the power of the element g for which the sum of Re Tr (g U) over the elements U is
/// greatest.
template <typename Group>
void to_landau_gauge(Links<typename Group::Element>& links, std::size_t height, std::size_t width) {
  constexpr int kMostSweeps = 10000;
  constexpr double kStill = 1e-12;  // sweeps end when no 1 - Re Tr g exceeds it: angles of 1e-6
  const double side = static_cast<double>(height > width ? height : width);
  const double power = 2.0 / (1.0 + 2.2 / side);
  double moved = 1.0;
  for (int sweep = 0; sweep < kMostSweeps && moved > kStill; ++sweep) {
    moved = 0.0;
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < width; ++x) {
        auto& right = links.right[y * width + x];
        auto& down = links.down[y * width + x];
        auto& from_left = links.right[y * width + (x + width - 1) % width];
        auto& from_above = links.down[(y + height - 1) % height * width + x];
        const auto g = Group::aligning(std::array{right, down, from_left.inverse(), from_above.inverse()}, power);
        right = g * right;
        down = g * down;
        from_left = from_left * g.inverse();
        from_above = from_above * g.inverse();
        const double by = 1.0 - Group::real_trace(g);
        if (by > moved) moved = by;
      }
    }
  }
}

}  // namespace ddpm::generate
