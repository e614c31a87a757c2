// The power spectrum of images and volumes, averaged over all directions.
//
// With X the discrete Fourier transform of an image of N pixels less its mean, a mode has the power |X|² / N: that of
// white noise is its variance, whatever the size, and the powers of all modes add up to N times the variance. Nothing
// is windowed. A mode of k_a cycles along axis a, whose side is n_a, has the wavenumber
// r = L sqrt(sum_a (k_a / n_a)²), which counts cycles along the longest side L. Ring b holds the modes with
// b - 1/2 <= r < b + 1/2, for b from 1 to L / 2, where the waves are 2 pixels long; modes beyond, in the corners, are
// in none.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/fft.h"

namespace ddpm::data {

class RadialSpectrum {
 public:
  /// The sides of the images: height and width, of volumes with the depth before.
  explicit RadialSpectrum(const std::vector<int64_t>& sides);

  /// Number of pixels.
  [[nodiscard]] std::size_t size() const { return fourier_.size(); }
  /// Number of rings; 0 where all sides are 1.
  [[nodiscard]] std::size_t rings() const { return modes_.size(); }
  /// How many modes each ring has.
  [[nodiscard]] const std::vector<int64_t>& modes() const { return modes_; }

  /// The mean power of each ring's modes of one image. `values` has mean 0. The result lives until the next call.
  [[nodiscard]] std::span<const double> power(std::span<const double> values);
  /// The mean over each ring's modes of numbers that belong to the modes of the half spectrum (base/fft.h), where each
  /// stands for its conjugate, too.
  [[nodiscard]] std::vector<double> average(std::span<const double> half) const;

 private:
  /// Adds to the sum of each ring, and of the corners, what `of_mode` says of its modes.
  template <typename OfMode>
  void sum_rings(const OfMode& of_mode, std::span<double> sums) const;

  base::Fourier fourier_;
  std::vector<uint32_t> ring_of_;  // the ring of each mode of the half spectrum; rings() for modes in the corners
  std::size_t columns_;            // extent of the half spectrum along its last axis
  bool even_;                      // whether the last column is its own mirror
  std::vector<int64_t> modes_;
  std::vector<std::complex<double>> half_;
  std::vector<double> power_;
};

}  // namespace ddpm::data
