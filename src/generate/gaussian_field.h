// Periodic Gaussian random fields with a power law for a spectrum.
//
// With X = FFT(x) of a field of N pixels (NumPy's convention), the power P(k) = E|X(k)|² / N is c |k|^-slope for wave
// vectors k = 2 pi n / side along each axis, and 0 for k = 0. c is such that each pixel has variance 1: the sum of P
// over all k is N. Values of different k are independent and Gaussian, so this says all of the distribution.
#pragma once

#include <complex>

#include "base/fft.h"
#include "generate/generator.h"
#include "generate/limits.h"

namespace ddpm::generate {

/// P(k) over the half spectrum (base/fft.h) of a field with these sides.
std::vector<double> power_law(const std::vector<int64_t>& sides, double slope);

class GaussianField final : public CoupledGenerator {
 public:
  static constexpr GridLimits kGrid = {.least = 2, .most = 16384, .most_axes = 3, .channels = 1};

  /// `sides`: height and width, of volumes the depth before. Throws ConfigError for a grid outside kGrid, and for
  /// slopes outside kGrfSlope.
  GaussianField(std::vector<int64_t> sides, std::vector<double> slopes, uint64_t seed);

  [[nodiscard]] data::Field image_field() const override;
  [[nodiscard]] base::OrderedJson description() const override;
  void make(int64_t sample, std::span<std::byte> image) override;

 private:
  [[nodiscard]] std::vector<double> amplitudes(double slope) const;
  void make_mirrored(std::size_t column);

  std::vector<int64_t> sides_;
  uint64_t seed_;
  base::Fourier fourier_;
  std::vector<std::vector<double>> amplitudes_;  // for each slope, over the half spectrum
  std::vector<std::size_t> mirror_;              // for each line along the last axis, the line at its negative
  std::vector<float> normals_;
  std::vector<std::complex<double>> spectrum_;
  std::vector<double> values_;
};

}  // namespace ddpm::generate
