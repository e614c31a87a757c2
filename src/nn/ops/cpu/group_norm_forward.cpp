#include <bit>
#include <cmath>

#include "nn/ops/cpu/group_norm_passes.h"

namespace ddpm::nn::cpu {
namespace {

float to_float(float value) { return value; }
float to_float(BFloat16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

template <typename T>
class Forward {
 public:
  Forward(const NormBatch& batch, const Branches& branches, double eps, bool in_any_order, T* y)
      : b_(batch),
        kernels_(group_norm_kernels<T>()),
        add_moments_(in_any_order ? kernels_.moments_in_any_order : kernels_.moments),
        eps_(eps),
        x_(static_cast<const T*>(batch.x.const_data_ptr())),
        adds_(branches, batch.x),
        y_(y),
        u_(batch),
        origins_(batch, 1),
        sums_(batch, 2) {}

  /// The first pixel is the origin of its channels' sums.
  void begin(int64_t image) {
    add(b_.offset(image, 0), b_.channels);
    const T* const pixel = x_ + b_.offset(image, 0);
    for (int64_t c = 0; c < b_.channels; ++c) origins_.of(image, 0)[c] = to_float(pixel[c]);
  }

  void first(int64_t image, int64_t slab) {
    const int64_t offset = b_.offset(image, slab);
    const int64_t pixels = b_.slabs.pixels(slab);
    add(offset, pixels * b_.channels);
    add_moments_(x_ + offset, pixels, b_.channels, origins_.of(image, 0), sums_.of(image, slab));
  }

  void middle(int64_t image) {
    if (!tiled_) {
      for (int64_t group = 0; group < b_.groups; ++group) {
        const Moments own = moments(image, group);
        const double mean = own.sum / b_.elements_of_group();
        set_statistics(image, group, own.origin + mean, own.squares / b_.elements_of_group() - mean * mean);
      }
    }
    u_.set(image);
  }

  /// Sets the statistics of all images from the moments of all tiles, which are added up in the order of the tiles:
  /// Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
  void meet(const GatherNumbers& tiles) {
    tiled_ = true;
    const at::Tensor own = numbers_of_groups(b_, [this](int64_t image, int64_t group) {
      const Moments m = moments(image, group);
      const double mean = m.sum / b_.elements_of_group();
      return std::array{b_.elements_of_group(), m.origin + mean, m.squares - m.sum * mean};
    });
    const at::Tensor all = tiles(own);
    for (int64_t i = 0; i < b_.images * b_.groups; ++i) {
      double count = 0.0;
      double mean = 0.0;
      double squares = 0.0;
      for (int64_t tile = 0; tile < all.size(0); ++tile) {
        const double* const of_tile = all.const_data_ptr<double>() + tile * own.numel() + 3 * i;
        const double away = of_tile[1] - mean;
        const double both = count + of_tile[0];
        squares += of_tile[2] + away * away * count * of_tile[0] / both;
        mean += away * of_tile[0] / both;
        count = both;
      }
      set_statistics(i / b_.groups, i % b_.groups, mean, squares / count);
    }
  }

  void second(int64_t image, int64_t slab) {
    const int64_t offset = b_.offset(image, slab);
    kernels_.normalise(x_ + offset, b_.slabs.pixels(slab), b_.channels, u_.of(image), b_.silu, y_ + offset);
  }

 private:
  /// The addends of x where there is a residual; null otherwise.
  struct Addition {
    Addition(const Branches& branches, const at::Tensor& x) {
      if (!branches.residual.defined()) return;
      addend = static_cast<const T*>(branches.addend.const_data_ptr());
      residual = static_cast<const T*>(branches.residual.const_data_ptr());
      sum = static_cast<T*>(x.mutable_data_ptr());
    }
    const T* addend = nullptr;
    const T* residual = nullptr;
    T* sum = nullptr;
  };

  void add(int64_t offset, int64_t count) {
    if (adds_.sum == nullptr) return;
    kernels_.add(adds_.addend + offset, adds_.residual + offset, count, adds_.sum + offset);
  }

  /// Sums of a group's values minus `origin`, and of their squares.
  struct Moments {
    double origin;
    double sum;
    double squares;
  };

  // Moves the channels' sums to one origin, the group's first value, so that means far from zero cancel nothing.
  [[nodiscard]] Moments moments(int64_t image, int64_t group) const {
    const int64_t begin = group * b_.group_channels;
    const auto value = [&](int64_t c) {
      return static_cast<double>(origins_.of(image, 0)[c]) +
             static_cast<double>(b_.affine.shift_before[image * b_.channels + c]);
    };
    const auto pixels = static_cast<double>(b_.pixels);
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t c = begin; c < begin + b_.group_channels; ++c) {
      const double s = sums_.total(image, 0, c);
      const double moved = value(c) - value(begin);
      sum += s + pixels * moved;
      squares += sums_.total(image, 1, c) + moved * (2.0 * s + pixels * moved);
    }
    return {.origin = value(begin), .sum = sum, .squares = squares};
  }

  void set_statistics(int64_t image, int64_t group, double mean, double variance) {
    const int64_t i = image * b_.groups + group;
    b_.mean[i] = static_cast<float>(mean);
    // Rounding may leave a negative number; a NaN stays.
    b_.rstd[i] = static_cast<float>(1.0 / std::sqrt((variance < 0.0 ? 0.0 : variance) + eps_));
  }

  const NormBatch& b_;
  const GroupNormKernels<T>& kernels_;
  decltype(GroupNormKernels<T>::moments) add_moments_;
  double eps_;
  const T* x_;
  Addition adds_;
  T* y_;
  NormCoefficientArrays u_;
  Coefficients origins_;
  Sums sums_;
  bool tiled_ = false;
};

}  // namespace

void norm_forward(const NormBatch& batch, const Branches& branches, double eps, bool in_any_order, const at::Tensor& y,
                  const GatherNumbers& tiles) {
  for_dtype(batch.x, [&]<typename T>(T* /*of*/) {
    Forward<T> pass(batch, branches, eps, in_any_order, static_cast<T*>(y.mutable_data_ptr()));
    if (!tiles) return run_two_passes(batch.slabs, pass);
    run_two_passes(batch.slabs, pass, [&] { pass.meet(tiles); });
  });
}

}  // namespace ddpm::nn::cpu
