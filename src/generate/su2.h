// Two-dimensional SU(2) gauge theory on a torus: probability exp(beta / 2 sum Tr U_P) / Z over the plaquettes of
// generate/torus_links.h. Samples are exact and independent.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "generate/couplings.h"
#include "generate/gauge_generator.h"

namespace ddpm::generate {

/// SU(2) with the weight exp(beta Tr U / 2).
class Su2Group {
 public:
  /// U = w + i (x sigma_1 + y sigma_2 + z sigma_3) with Pauli's matrices; w² + x² + y² + z² = 1, Tr U = 2 w.
  struct Element {
    double w = 1.0, x = 0.0, y = 0.0, z = 0.0;
    [[nodiscard]] Element inverse() const { return {w, -x, -y, -z}; }
    friend Element operator*(const Element& a, const Element& b);
  };

  static constexpr const char* kKind = "su2";
  static constexpr Coupling kBeta = kSu2Beta;
  /// w, x, y and z of both links.
  static std::vector<data::Variable> variables();
  /// These four, of length 1: rounding adds up along the torus.
  static std::array<double, 4> numbers(const Element& link);

  explicit Su2Group(double beta);
  [[nodiscard]] static Element one() { return {}; }
  [[nodiscard]] static Element haar(Draws& draws);
  [[nodiscard]] static double real_trace(const Element& g) { return g.w; }
  [[nodiscard]] static Element aligning(const std::array<Element, 4>& links, double power);
  /// Kennedy, Pendleton, Physics Letters B 156, 393 (1985).
  [[nodiscard]] Element plaquette(Draws& draws) const;
  /// f_m is the series of n I_n(beta)^m sin(n phi) / sin(phi) over n = 1, 2, ..., with Tr g = 2 cos(phi).
  [[nodiscard]] bool closes(const Element& g, std::size_t m, Draws& draws) const;

 private:
  [[nodiscard]] double plaquette_trace(Draws& draws) const;

  double beta_;
  std::vector<double> logs_;  // ln(I_n / I_1) for n = 1, 2, ...
};

using Su2 = GaugeGenerator<Su2Group>;

}  // namespace ddpm::generate
