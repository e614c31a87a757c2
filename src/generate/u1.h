// Two-dimensional U(1) gauge theory on a torus: probability exp(beta sum cos theta_P) / Z over the plaquettes, whose
// angle theta_P is that of generate/torus_links.h. Samples are exact and independent.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "generate/couplings.h"
#include "generate/gauge_generator.h"

namespace ddpm::generate {

/// U(1) with the weight exp(beta cos theta).
class U1Group {
 public:
  struct Element {
    double angle = 0.0;
    [[nodiscard]] Element inverse() const { return {-angle}; }
    friend Element operator*(Element a, Element b) { return {a.angle + b.angle}; }
  };

  static constexpr const char* kKind = "u1";
  static constexpr Coupling kBeta = kU1Beta;
  /// The angles of both links.
  static std::vector<data::Variable> variables();
  /// The angle, from -pi to pi.
  static std::array<double, 1> numbers(Element link);

  explicit U1Group(double beta);
  [[nodiscard]] static Element one() { return {}; }
  [[nodiscard]] static Element haar(Draws& draws);
  [[nodiscard]] static double real_trace(Element g);
  [[nodiscard]] static Element aligning(const std::array<Element, 4>& links, double power);
  /// Von Mises' distribution: Best, Fisher, Applied Statistics 28, 152 (1979).
  [[nodiscard]] Element plaquette(Draws& draws) const;
  /// f_m is the series of I_k(beta)^m cos(k theta) over all k.
  [[nodiscard]] bool closes(Element g, std::size_t m, Draws& draws) const;

 private:
  double beta_;
  double r_ = 0.0;            // Best's and Fisher's
  std::vector<double> logs_;  // ln(I_k / I_0)
};

/// U(1) with links that are stored as unit vectors: unlike angles, they have no cut, where equal links have numbers far
/// apart, which a network would have to learn.
class U1VectorGroup : public U1Group {
 public:
  using U1Group::U1Group;
  static constexpr const char* kLinks = "vectors";
  /// Cosine and sine of both links.
  static std::vector<data::Variable> variables();
  static std::array<double, 2> numbers(Element link);
};

using U1 = GaugeGenerator<U1Group>;
using U1Vectors = GaugeGenerator<U1VectorGroup>;

}  // namespace ddpm::generate
