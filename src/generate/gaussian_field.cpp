#include "generate/gaussian_field.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "base/random.h"
#include "generate/draws.h"

namespace ddpm::generate {
namespace {

std::vector<std::size_t> sizes(const std::vector<int64_t>& sides) { return {sides.begin(), sides.end()}; }

/// 2 pi n / side for n in (-side / 2, side / 2].
double wave_number(std::size_t index, std::size_t side) {
  const auto n = static_cast<double>(index);
  const auto whole = static_cast<double>(side);
  return 2.0 * std::numbers::pi * (2 * index <= side ? n : n - whole) / whole;
}

/// What part of the variance each mode of the half spectrum has.
std::vector<double> shares_of_power(const std::vector<int64_t>& sides, double slope) {
  const std::vector<std::size_t> all = sizes(sides);
  const std::size_t columns = all.back() / 2 + 1;
  std::size_t lines = 1;
  for (std::size_t axis = 0; axis + 1 < all.size(); ++axis) lines *= all[axis];
  std::vector<double> power(lines * columns);
  double sum = 0.0;
  for (std::size_t i = 1; i < power.size(); ++i) {
    const std::size_t column = i % columns;
    const double last = wave_number(column, all.back());
    double square = last * last;
    std::size_t rest = i / columns;
    for (std::size_t axis = all.size() - 1; axis-- > 0; rest /= all[axis]) {
      const double k = wave_number(rest % all[axis], all[axis]);
      square += k * k;
    }
    power[i] = std::pow(square, -slope / 2.0);
    // The columns between the first and that of n / 2 stand for their conjugates, too.
    sum += column == 0 || 2 * column == all.back() ? power[i] : 2.0 * power[i];
  }
  for (double& value : power) value /= sum;
  return power;
}

}  // namespace

std::vector<double> power_law(const std::vector<int64_t>& sides, double slope) {
  std::vector<double> power = shares_of_power(sides, slope);
  double pixels = 1.0;
  for (const int64_t side : sides) pixels *= static_cast<double>(side);
  for (double& value : power) value *= pixels;
  return power;
}

GaussianField::GaussianField(std::vector<int64_t> sides, std::vector<double> slopes, uint64_t seed)
    : CoupledGenerator({"slope", checked_values(std::move(slopes), kGrfSlope)}),
      sides_(checked_grid(std::move(sides), kGrid)),
      seed_(seed),
      fourier_(sizes(sides_)),
      normals_(2 * fourier_.half_size()),
      spectrum_(fourier_.half_size()),
      values_(fourier_.size()) {
  const std::vector<std::size_t> all = sizes(sides_);
  const std::size_t lines = fourier_.size() / all.back();
  mirror_.resize(lines);
  for (std::size_t line = 0; line < lines; ++line) {
    std::size_t rest = line;
    std::size_t stride = 1;
    for (std::size_t axis = all.size() - 1; axis-- > 0; stride *= all[axis], rest /= all[axis]) {
      mirror_[line] += stride * ((all[axis] - rest % all[axis]) % all[axis]);
    }
  }
  for (const double slope : couplings().values) amplitudes_.push_back(amplitudes(slope));
}

/// The root of E|X(k)|² over the half spectrum.
std::vector<double> GaussianField::amplitudes(double slope) const {
  std::vector<double> values = shares_of_power(sides_, slope);
  const auto pixels = static_cast<double>(fourier_.size());
  for (double& value : values) value = pixels * std::sqrt(value);
  return values;
}

/// In the columns of k = 0 and n / 2 along the last axis, X(-k) = conj X(k) within the column.
void GaussianField::make_mirrored(std::size_t column) {
  const auto columns = static_cast<std::size_t>(sides_.back()) / 2 + 1;
  for (std::size_t line = 0; line < mirror_.size(); ++line) {
    std::complex<double>& value = spectrum_[line * columns + column];
    if (mirror_[line] == line) value = std::numbers::sqrt2 * value.real();
    if (mirror_[line] < line) value = std::conj(spectrum_[mirror_[line] * columns + column]);
  }
}

data::Field GaussianField::image_field() const {
  return make_image_field(sides_, base::DType::f32, {{.name = "field", .unit = "", .transform = {}}});
}

base::OrderedJson GaussianField::description() const {
  return {{"kind", "grf"}, {"sides", sides_}, {"slope", couplings().values}};
}

void GaussianField::make(int64_t sample, std::span<std::byte> image) {
  base::RandomSequence(seed_, kFieldStream, 0, static_cast<uint64_t>(sample)).fill_normal(normals_);
  const std::vector<double>& amplitude = amplitudes_[couplings().index(sample)];
  for (std::size_t i = 0; i < spectrum_.size(); ++i) {
    spectrum_[i] = amplitude[i] / std::numbers::sqrt2 * std::complex<double>(normals_[2 * i], normals_[2 * i + 1]);
  }
  make_mirrored(0);
  if (sides_.back() % 2 == 0) make_mirrored(static_cast<std::size_t>(sides_.back()) / 2);
  fourier_.inverse_real(spectrum_, values_);
  store(values_, image);
}

}  // namespace ddpm::generate
