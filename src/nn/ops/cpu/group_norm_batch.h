// A batch of group normalisation as its two passes see it: pointers, sizes, coefficients per channel, sums per slab.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "nn/ops/cpu/dispatch.h"
#include "nn/ops/cpu/two_passes.h"
#include "nn/ops/group_norm_types.h"

namespace ddpm::nn::cpu {

/// The parameters as contiguous float32: weight and bias [C], the rest [N, C], zeros where the modulation is absent.
class Affine {
 public:
  Affine(const at::Tensor& weight_of_any_dtype, const at::Tensor& bias_of_any_dtype, const Modulation& modulation,
         int64_t images);

  const float* weight;
  const float* bias;
  const float* shift_before;
  const float* scale;
  const float* shift_after;

 private:
  const float* keep(const at::Tensor& t);

  std::vector<at::Tensor> kept_;
};

/// float32 [N, groups]
struct NormStatistics {
  at::Tensor mean;
  at::Tensor rstd;
};

struct NormBatch {
  NormBatch(const at::Tensor& x_nhwc, const Affine& affine_of_x, const NormStatistics& statistics, bool with_silu);

  at::Tensor x;  ///< [N, C, H, W], channels last, float32 or bfloat16
  const Affine& affine;
  float* mean;
  float* rstd;
  bool silu;
  int64_t images;
  int64_t channels;
  int64_t pixels;
  int64_t groups;
  int64_t group_channels;
  Slabs slabs;

  [[nodiscard]] double elements_of_group() const {
    return static_cast<double>(pixels) * static_cast<double>(group_channels);
  }
  /// The offset of a slab's first element.
  [[nodiscard]] int64_t offset(int64_t image, int64_t slab) const {
    return (image * pixels + slabs.first_pixel(slab)) * channels;
  }
};

/// `arrays` arrays of float32 per image, one value per channel, as the kernels read them.
class Coefficients {
 public:
  Coefficients(const NormBatch& b, int64_t arrays)
      : arrays_(arrays),
        padded_((b.channels + kChannelPadding - 1) / kChannelPadding * kChannelPadding),
        values_(static_cast<std::size_t>(b.images * arrays * padded_)) {}

  [[nodiscard]] float* of(int64_t image, int64_t array) { return &values_[at(image, array)]; }
  [[nodiscard]] const float* of(int64_t image, int64_t array) const { return &values_[at(image, array)]; }

 private:
  [[nodiscard]] std::size_t at(int64_t image, int64_t array) const {
    return static_cast<std::size_t>((image * arrays_ + array) * padded_);
  }

  int64_t arrays_;
  int64_t padded_;
  std::vector<float> values_;
};

/// `kinds` sums per slab and channel.
class Sums {
 public:
  Sums(const NormBatch& b, int64_t kinds)
      : channels_(b.channels),
        kinds_(kinds),
        slabs_(b.slabs.per_image()),
        values_(static_cast<std::size_t>(b.images * slabs_ * kinds * channels_)) {}

  [[nodiscard]] double* of(int64_t image, int64_t slab) { return &values_[at(image, slab)]; }

  /// The sum over an image's slabs, in their order.
  [[nodiscard]] double total(int64_t image, int64_t kind, int64_t channel) const {
    double sum = 0.0;
    for (int64_t slab = 0; slab < slabs_; ++slab) {
      sum += values_[at(image, slab) + static_cast<std::size_t>(kind * channels_ + channel)];
    }
    return sum;
  }

 private:
  [[nodiscard]] std::size_t at(int64_t image, int64_t slab) const {
    return static_cast<std::size_t>((image * slabs_ + slab) * kinds_ * channels_);
  }

  int64_t channels_;
  int64_t kinds_;
  int64_t slabs_;
  std::vector<double> values_;
};

/// Three numbers of each group of each image, as tiles make them known to each other: float64 [images, groups, 3].
template <typename OfGroup>
at::Tensor numbers_of_groups(const NormBatch& b, const OfGroup& of_group) {
  at::Tensor numbers = at::empty({b.images, b.groups, 3}, at::kDouble);
  double* next = numbers.mutable_data_ptr<double>();
  for (int64_t image = 0; image < b.images; ++image) {
    for (int64_t group = 0; group < b.groups; ++group) {
      const std::array<double, 3> three = of_group(image, group);
      next = std::copy(three.begin(), three.end(), next);
    }
  }
  return numbers;
}

/// Centre, 1/σ, weight and bias per image and channel.
class NormCoefficientArrays {
 public:
  explicit NormCoefficientArrays(const NormBatch& batch) : batch_(batch), arrays_(batch, 4) {}

  /// Fills the coefficients from the image's statistics.
  void set(int64_t image);
  [[nodiscard]] NormCoefficients of(int64_t image) const {
    return {.centre = arrays_.of(image, 0),
            .rstd = arrays_.of(image, 1),
            .weight = arrays_.of(image, 2),
            .bias = arrays_.of(image, 3)};
  }

 private:
  const NormBatch& batch_;
  Coefficients arrays_;
};

}  // namespace ddpm::nn::cpu
