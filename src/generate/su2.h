// Two-dimensional SU(2) gauge theory on a torus: probability exp(beta / 2 sum Tr U_P) / Z over the plaquettes of
// generate/torus_links.h. Samples are exact and independent.
#pragma once

#include "generate/generator.h"
#include "generate/torus_links.h"

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

  explicit Su2Group(double beta);
  [[nodiscard]] static Element one() { return {}; }
  [[nodiscard]] static Element haar(Draws& draws);
  /// Kennedy, Pendleton, Physics Letters B 156, 393 (1985).
  [[nodiscard]] Element plaquette(Draws& draws) const;
  /// f_m is the series of n I_n(beta)^m sin(n phi) / sin(phi) over n = 1, 2, ..., with Tr g = 2 cos(phi).
  [[nodiscard]] bool closes(const Element& g, std::size_t m, Draws& draws) const;

 private:
  [[nodiscard]] double plaquette_trace(Draws& draws) const;

  double beta_;
  std::vector<double> logs_;  // ln(I_n / I_1) for n = 1, 2, ...
};

class Su2 final : public CoupledGenerator {
 public:
  Su2(std::vector<int64_t> sides, std::vector<double> betas, uint64_t seed);

  [[nodiscard]] data::Field image_field() const override;
  [[nodiscard]] base::OrderedJson description() const override;
  void make(int64_t sample, std::span<std::byte> image) override;

 private:
  std::vector<int64_t> sides_;
  uint64_t seed_;
  std::vector<Su2Group> groups_;  // for each beta
  TorusLinks<Su2Group> torus_;
  std::vector<double> values_;
};

}  // namespace ddpm::generate
