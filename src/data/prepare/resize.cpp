#include "data/prepare/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/vector_clones.h"

namespace ddpm::data::prepare {
namespace {

/// What one output pixel is made of along one axis: weights of input pixels [first, first + weights.size()).
struct Taps {
  int first;
  std::span<const float> weights;
};

/// The taps of output pixels [begin, begin + length) when `in` pixels become `out`.
class Axis {
 public:
  Axis(int in, int out, int begin, int length) {
    const double scale = double(in) / out;
    const double support = std::max(1.0, scale);
    stride_ = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
    firsts_.reserve(static_cast<std::size_t>(length));
    counts_.reserve(static_cast<std::size_t>(length));
    weights_.resize(stride_ * static_cast<std::size_t>(length));
    for (int i = 0; i < length; ++i) add(in, (begin + i + 0.5) * scale, support);
  }

  [[nodiscard]] Taps operator[](int i) const {
    const auto at = static_cast<std::size_t>(i);
    return {firsts_[at], std::span(weights_).subspan(at * stride_, counts_[at])};
  }
  /// Input pixels [begin, end) are all that is read.
  [[nodiscard]] int begin() const { return firsts_.front(); }
  [[nodiscard]] int end() const { return firsts_.back() + static_cast<int>(counts_.back()); }

 private:
  void add(int in, double center, double support) {
    const int first = std::max(0, static_cast<int>(std::floor(center - support + 0.5)));
    const int last = std::min(in, static_cast<int>(std::floor(center + support + 0.5)));
    const auto triangle = [&](int i) { return std::max(0.0, 1.0 - std::abs(i + 0.5 - center) / support); };
    double sum = 0.0;
    for (int i = first; i < last; ++i) sum += triangle(i);
    float* weights = weights_.data() + firsts_.size() * stride_;
    for (int i = first; i < last; ++i) weights[i - first] = static_cast<float>(triangle(i) / sum);
    firsts_.push_back(first);
    counts_.push_back(static_cast<std::size_t>(last - first));
  }

  std::size_t stride_ = 0;
  std::vector<int> firsts_;
  std::vector<std::size_t> counts_;
  std::vector<float> weights_;
};

/// sums[i] += weights[0] rows[0][i] + ... + weights[3] rows[3][i], from the left.
template <typename T>
[[gnu::always_inline]] inline void add_rows_of(float* __restrict sums, const std::array<const T*, 4>& rows,
                                               const std::array<float, 4>& weights, std::size_t n) {
  const T* __restrict a = rows[0];
  const T* __restrict b = rows[1];
  const T* __restrict c = rows[2];
  const T* __restrict d = rows[3];
  const auto [wa, wb, wc, wd] = weights;
  for (std::size_t i = 0; i < n; ++i) {
    float sum = sums[i];
    sum += wa * static_cast<float>(a[i]);
    sum += wb * static_cast<float>(b[i]);
    sum += wc * static_cast<float>(c[i]);
    sum += wd * static_cast<float>(d[i]);
    sums[i] = sum;
  }
}

DDPM_VECTOR_CLONES
void add_rows(float* sums, const std::array<const uint8_t*, 4>& rows, const std::array<float, 4>& weights,
              std::size_t n) {
  add_rows_of(sums, rows, weights, n);
}

DDPM_VECTOR_CLONES
void add_rows(float* sums, const std::array<const float*, 4>& rows, const std::array<float, 4>& weights,
              std::size_t n) {
  add_rows_of(sums, rows, weights, n);
}

/// One row of the image resampled vertically, columns [x, x + sums.size() / channels).
template <typename T>
void resample_column(const BasicImage<T>& image, const Taps& taps, int x, std::span<float> sums) {
  // A tile of the sums stays in the first-level cache while the rows pass by.
  constexpr std::size_t kTile = 2048;
  const auto count = taps.weights.size();
  for (std::size_t begin = 0; begin < sums.size(); begin += kTile) {
    const auto tile = sums.subspan(begin, std::min(kTile, sums.size() - begin));
    std::fill(tile.begin(), tile.end(), 0.0F);
    for (std::size_t tap = 0; tap < count; tap += 4) {
      std::array<const T*, 4> rows{};
      std::array<float, 4> weights{};  // those beyond the last tap stay 0, on a row that exists
      for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t t = std::min(tap + i, count - 1);
        const std::size_t column = static_cast<std::size_t>(x) * static_cast<std::size_t>(image.channels) + begin;
        rows[i] = image.row(taps.first + static_cast<int>(t)).data() + column;
        if (tap + i < count) weights[i] = taps.weights[t];
      }
      add_rows(tile.data(), rows, weights, tile.size());
    }
  }
}

/// Floats that one step of resample_row() reads: RGB goes four wide, which is one vector register, and drops the last.
constexpr std::size_t kLanesOfRgb = 4;

/// The row resampled horizontally; `sums` begins at input column `x`, and Lanes - Channels floats may be read behind
/// it.
template <std::size_t Channels, std::size_t Lanes, typename T>
void resample_row(const float* sums, const Axis& columns, int x, std::span<T> out) {
  for (std::size_t i = 0; i * Channels < out.size(); ++i) {
    const Taps taps = columns[static_cast<int>(i)];
    const float* in = sums + static_cast<std::size_t>(taps.first - x) * Channels;
    std::array<float, Lanes> total{};
    for (const float weight : taps.weights) {
      for (std::size_t c = 0; c < Lanes; ++c) total[c] += weight * in[c];
      in += Channels;
    }
    if constexpr (std::is_same_v<T, float>) {
      for (std::size_t c = 0; c < Channels; ++c) out[i * Channels + c] = total[c];
    } else {
      // Weights add up to 1 within rounding: only the upper end can be passed, and by less than one level.
      std::array<int32_t, Lanes> rounded{};
      for (std::size_t c = 0; c < Lanes; ++c) rounded[c] = static_cast<int32_t>(std::min(total[c] + 0.5F, 255.0F));
      for (std::size_t c = 0; c < Channels; ++c) out[i * Channels + c] = static_cast<uint8_t>(rounded[c]);
    }
  }
}

}  // namespace

template <typename T>
BasicImage<T> resize(const BasicImage<T>& image, int width, int height, const Window& window) {
  DDPM_CHECK(image.channels == 1 || image.channels == 3, "{} channels", image.channels);
  DDPM_CHECK(window.width > 0 && window.x >= 0 && window.x + window.width <= width, "columns {} + {} of {}", window.x,
             window.width, width);
  DDPM_CHECK(window.height > 0 && window.y >= 0 && window.y + window.height <= height, "rows {} + {} of {}", window.y,
             window.height, height);
  const Axis columns(image.width, width, window.x, window.width);
  const Axis rows(image.height, height, window.y, window.height);
  const int x = columns.begin();
  const std::size_t row = static_cast<std::size_t>(columns.end() - x) * static_cast<std::size_t>(image.channels);
  std::vector<float> sums(row + kLanesOfRgb);
  BasicImage<T> out(window.width, window.height, image.channels);
  for (int y = 0; y < window.height; ++y) {
    resample_column(image, rows[y], x, std::span(sums).first(row));
    if (image.channels == 1) {
      resample_row<1, 1, T>(sums.data(), columns, x, out.row(y));
    } else {
      resample_row<3, kLanesOfRgb, T>(sums.data(), columns, x, out.row(y));
    }
  }
  return out;
}

template Image resize(const Image& image, int width, int height, const Window& window);
template FloatImage resize(const FloatImage& image, int width, int height, const Window& window);

}  // namespace ddpm::data::prepare
