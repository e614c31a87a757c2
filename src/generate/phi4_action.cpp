// Sums over lines along the last axis, whose neighbours in the other axes are lines, too: loops that vectors run
// through.
#include <array>

#include "base/vector_clones.h"
#include "generate/phi4.h"

namespace ddpm::generate {
namespace {

/// A line and its neighbours in the other axes; of flat fields the second pair is missing.
struct Lines {
  const double* self;
  std::array<const double*, 4> others;
  std::size_t count;
  std::size_t length;
};

/// momentum += step (sum of neighbours - (2 axes + mass_squared) phi - 4 lambda phi³)
DDPM_VECTOR_CLONES void kick_line(const Lines& lines, double diagonal, double quartic, double step, double* momentum) {
  const std::size_t n = lines.length;
  const double* const self = lines.self;
  const double* const a = lines.others[0];
  const double* const b = lines.others[1];
  for (std::size_t x = 0; x < n; ++x) {
    const double phi = self[x];
    momentum[x] += step * (a[x] + b[x] - (diagonal + quartic * phi * phi) * phi);
  }
  if (lines.count == 4) {
    const double* const c = lines.others[2];
    const double* const d = lines.others[3];
    for (std::size_t x = 0; x < n; ++x) momentum[x] += step * (c[x] + d[x]);
  }
  momentum[0] += step * (self[n - 1] + self[1]);
  for (std::size_t x = 1; x + 1 < n; ++x) momentum[x] += step * (self[x - 1] + self[x + 1]);
  momentum[n - 1] += step * (self[n - 2] + self[0]);
}

/// The line's part of S; each bond belongs to its first site. Sums of eight columns, in a fixed order.
DDPM_VECTOR_CLONES double line_value(const Lines& lines, double diagonal, double lambda) {
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  const std::size_t n = lines.length;
  const auto site = [&](std::size_t x, double next) {
    const double phi = lines.self[x];
    double others = next + lines.others[0][x];
    if (lines.count == 4) others += lines.others[2][x];
    return (0.5 * diagonal + lambda * phi * phi) * phi * phi - phi * others;
  };
  std::size_t x = 0;
  for (; x + kSums < n; x += kSums) {
    for (std::size_t s = 0; s < kSums; ++s) sums[s] += site(x + s, lines.self[x + s + 1]);
  }
  for (; x < n; ++x) sums[0] += site(x, lines.self[x + 1 < n ? x + 1 : 0]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

Phi4Action::Phi4Action(const std::vector<int64_t>& sides, double mass_squared, double lambda)
    : sides_(sides.begin(), sides.end()), mass_squared_(mass_squared), lambda_(lambda) {
  for (const std::size_t side : sides_) sites_ *= side;
}

template <typename Line>
void Phi4Action::for_lines(const Line& line) const {
  const std::size_t length = sides_.back();
  for (std::size_t first = 0; first < sites_; first += length) {
    std::array<std::size_t, 4> others{};  // the next line and the one before, of each other axis
    std::size_t count = 0;
    std::size_t stride = length;
    for (std::size_t axis = sides_.size() - 1; axis-- > 0; stride *= sides_[axis]) {
      const std::size_t side = sides_[axis];
      const std::size_t at = first / stride % side;
      others[count++] = at + 1 < side ? first + stride : first - at * stride;
      others[count++] = at > 0 ? first - stride : first + (side - 1) * stride;
    }
    line(first, std::span(others).first(count));
  }
}

double Phi4Action::value(std::span<const double> field) const {
  const double diagonal = 2.0 * static_cast<double>(sides_.size()) + mass_squared_;
  double sum = 0.0;
  for_lines([&](std::size_t first, std::span<const std::size_t> others) {
    Lines lines{.self = &field[first], .others = {}, .count = others.size(), .length = sides_.back()};
    for (std::size_t i = 0; i < others.size(); ++i) lines.others[i] = &field[others[i]];
    sum += line_value(lines, diagonal, lambda_);
  });
  return sum;
}

void Phi4Action::kick(std::span<const double> field, double step, std::span<double> momentum) const {
  const double diagonal = 2.0 * static_cast<double>(sides_.size()) + mass_squared_;
  for_lines([&](std::size_t first, std::span<const std::size_t> others) {
    Lines lines{.self = &field[first], .others = {}, .count = others.size(), .length = sides_.back()};
    for (std::size_t i = 0; i < others.size(); ++i) lines.others[i] = &field[others[i]];
    kick_line(lines, diagonal, 4.0 * lambda_, step, &momentum[first]);
  });
}

}  // namespace ddpm::generate
