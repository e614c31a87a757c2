// kissfft transforms one line of complex numbers. Lines of axes other than the last are gathered several at a time,
// since their elements lie far apart; two lines of real numbers are the real and the imaginary part of one complex
// line.
#include "base/fft.h"

#include <algorithm>
#include <utility>

#include <kissfft/kissfft.hh>

#include "base/check.h"

namespace ddpm::base {
namespace {

using Complex = std::complex<double>;
using Plan = kissfft<double>;

constexpr std::size_t kLines = 8;  // gathered at once: with 16 bytes per element, two cache lines of each row

}  // namespace

struct Fourier::Plans {
  std::vector<Plan> forward, inverse;  // one per axis
  std::vector<Complex> in, out;        // kLines lines of the longest axis

  [[nodiscard]] const Plan& of(std::size_t axis, Direction direction) const {
    return direction == Direction::forward ? forward[axis] : inverse[axis];
  }
};

Fourier::Fourier(std::vector<std::size_t> sizes) : sizes_(std::move(sizes)), plans_(std::make_unique<Plans>()) {
  DDPM_CHECK(!sizes_.empty() && std::ranges::find(sizes_, 0U) == sizes_.end(), "{} axes, each of at least 1 element",
             sizes_.size());
  for (const std::size_t n : sizes_) {
    plans_->forward.emplace_back(n, false);
    plans_->inverse.emplace_back(n, true);
    size_ *= n;
  }
  half_size_ = size_ / sizes_.back() * (sizes_.back() / 2 + 1);
  plans_->in.resize(kLines * std::ranges::max(sizes_));
  plans_->out.resize(plans_->in.size());
}

Fourier::~Fourier() = default;
Fourier::Fourier(Fourier&&) noexcept = default;
Fourier& Fourier::operator=(Fourier&&) noexcept = default;

/// Transforms all lines of one axis; neighbours along it lie `inner` elements apart.
void Fourier::along_axis(std::span<Complex> values, std::size_t axis, std::size_t inner, Direction direction) {
  const std::size_t n = sizes_[axis];
  if (n == 1) return;
  const Plan& plan = plans_->of(axis, direction);
  Complex* const in = plans_->in.data();
  Complex* const out = plans_->out.data();
  for (std::size_t outer = 0; outer < values.size(); outer += n * inner) {
    for (std::size_t first = 0; first < inner; first += kLines) {
      const std::size_t lines = std::min(kLines, inner - first);
      Complex* const corner = values.data() + outer + first;
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t line = 0; line < lines; ++line) in[line * n + k] = corner[k * inner + line];
      }
      for (std::size_t line = 0; line < lines; ++line) plan.transform(in + line * n, out + line * n);
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t line = 0; line < lines; ++line) corner[k * inner + line] = out[line * n + k];
      }
    }
  }
}

void Fourier::forward(std::span<Complex> values) {
  DDPM_CHECK(values.size() == size_, "{} values for {} elements", values.size(), size_);
  std::size_t inner = 1;
  for (std::size_t axis = sizes_.size(); axis-- > 0; inner *= sizes_[axis]) {
    along_axis(values, axis, inner, Direction::forward);
  }
}

void Fourier::inverse(std::span<Complex> values) {
  DDPM_CHECK(values.size() == size_, "{} values for {} elements", values.size(), size_);
  std::size_t inner = 1;
  for (std::size_t axis = sizes_.size(); axis-- > 0; inner *= sizes_[axis]) {
    along_axis(values, axis, inner, Direction::inverse);
  }
  const double scale = 1.0 / static_cast<double>(size_);
  for (Complex& value : values) value *= scale;
}

void Fourier::forward_real(std::span<const double> values, std::span<Complex> half) {
  DDPM_CHECK(values.size() == size_ && half.size() == half_size_, "{} values, {} frequencies for {} and {}",
             values.size(), half.size(), size_, half_size_);
  const std::size_t last = sizes_.size() - 1;
  const std::size_t n = sizes_[last];
  const std::size_t columns = n / 2 + 1;
  const std::size_t rows = size_ / n;
  const Plan& plan = plans_->of(last, Direction::forward);
  Complex* const in = plans_->in.data();
  Complex* const out = plans_->out.data();
  for (std::size_t row = 0; row < rows; row += 2) {
    const bool pair = row + 1 < rows;
    for (std::size_t x = 0; x < n; ++x) in[x] = {values[row * n + x], pair ? values[(row + 1) * n + x] : 0.0};
    plan.transform(in, out);
    for (std::size_t k = 0; k < columns; ++k) {
      const Complex mirrored = std::conj(out[k == 0 ? 0 : n - k]);
      half[row * columns + k] = 0.5 * (out[k] + mirrored);
      if (pair) half[(row + 1) * columns + k] = Complex(0.0, -0.5) * (out[k] - mirrored);
    }
  }
  std::size_t inner = columns;
  for (std::size_t axis = last; axis-- > 0; inner *= sizes_[axis]) along_axis(half, axis, inner, Direction::forward);
}

void Fourier::inverse_real(std::span<Complex> half, std::span<double> values) {
  DDPM_CHECK(values.size() == size_ && half.size() == half_size_, "{} values, {} frequencies for {} and {}",
             values.size(), half.size(), size_, half_size_);
  const std::size_t last = sizes_.size() - 1;
  const std::size_t n = sizes_[last];
  const std::size_t columns = n / 2 + 1;
  const std::size_t rows = size_ / n;
  std::size_t inner = columns;
  for (std::size_t axis = last; axis-- > 0; inner *= sizes_[axis]) along_axis(half, axis, inner, Direction::inverse);
  const Plan& plan = plans_->of(last, Direction::inverse);
  Complex* const in = plans_->in.data();
  Complex* const out = plans_->out.data();
  const double scale = 1.0 / static_cast<double>(size_);
  for (std::size_t row = 0; row < rows; row += 2) {
    const bool pair = row + 1 < rows;
    for (std::size_t k = 0; k < columns; ++k) {
      // The imaginary parts of frequency 0 and of n / 2 cannot belong to a real line, and are left out as NumPy does.
      const bool own_mirror = k == 0 || 2 * k == n;
      Complex a = half[row * columns + k];
      Complex b = pair ? half[(row + 1) * columns + k] : Complex();
      if (own_mirror) a = a.real(), b = b.real();
      in[k] = a + Complex(-b.imag(), b.real());
      if (!own_mirror) in[n - k] = std::conj(a) + Complex(b.imag(), b.real());
    }
    plan.transform(in, out);
    for (std::size_t x = 0; x < n; ++x) values[row * n + x] = out[x].real() * scale;
    for (std::size_t x = 0; pair && x < n; ++x) values[(row + 1) * n + x] = out[x].imag() * scale;
  }
}

}  // namespace ddpm::base
