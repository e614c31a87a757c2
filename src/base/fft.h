// Discrete Fourier transforms of arrays with any number of axes, in double precision, by kissfft.
//
// Conventions are NumPy's: forward is X[k] = sum_x x[x] exp(-2 pi i k x / n) along each axis, inverse is its inverse
// and divides by the number of elements. Arrays lie in C order, the last axis fastest. A real array has the half
// spectrum of numpy.fft.rfftn: the last axis holds the n / 2 + 1 frequencies that are not the conjugates of others.
// Sizes are any; those whose prime factors are at most 5 are fast.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace ddpm::base {

/// The transforms of one shape. An object belongs to one thread at a time.
class Fourier {
 public:
  /// `sizes`: one number above 0 per axis, the slowest axis first.
  explicit Fourier(std::vector<std::size_t> sizes);
  ~Fourier();
  Fourier(Fourier&&) noexcept;
  Fourier& operator=(Fourier&&) noexcept;

  /// Number of elements of the array.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Number of elements of a real array's half spectrum.
  [[nodiscard]] std::size_t half_size() const { return half_size_; }

  /// numpy.fft.fftn, in place.
  void forward(std::span<std::complex<double>> values);
  /// numpy.fft.ifftn, in place.
  void inverse(std::span<std::complex<double>> values);
  /// numpy.fft.rfftn.
  void forward_real(std::span<const double> values, std::span<std::complex<double>> half);
  /// numpy.fft.irfftn with the array's own sizes. `half` is overwritten on the way.
  void inverse_real(std::span<std::complex<double>> half, std::span<double> values);

 private:
  struct Plans;
  enum class Direction : bool { forward, inverse };

  void along_axis(std::span<std::complex<double>> values, std::size_t axis, std::size_t inner, Direction direction);

  std::vector<std::size_t> sizes_;
  std::size_t size_ = 1;
  std::size_t half_size_ = 1;
  std::unique_ptr<Plans> plans_;
};

}  // namespace ddpm::base
