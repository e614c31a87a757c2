// What group normalisation takes and gives: see nn/ops/group_norm_silu.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <ATen/core/Tensor.h>

#include "nn/ops/activation.h"

namespace ddpm::nn {

using OptionalTensor = std::optional<at::Tensor>;

/// Per image and channel, [N, C] each; undefined: absent.
struct Modulation {
  at::Tensor shift_before = {};
  at::Tensor scale = {};  ///< comes with shift_after
  at::Tensor shift_after = {};
};

struct GroupNormOptions {
  int64_t groups = 32;  ///< divides the channels
  double eps = 1e-5;
  Activation activation = Activation::none;
  /// On CPUs the statistics do not depend on the order of pixels, but for what rounding sums in float64 leaves: images
  /// on a torus may be rolled.
  bool in_any_order = false;
};

/// Makes the numbers of all tiles of the images known to each: [images, groups, k] -> [tiles, images, groups, k].
using GatherNumbers = std::function<at::Tensor(const at::Tensor& numbers)>;

/// The two sides of a residual connection, alike in shape and dtype, before they are added.
struct Branches {
  at::Tensor addend;
  at::Tensor residual = {};  ///< undefined: nothing to add
  at::Tensor bias = {};      ///< [C], to be added with the residual, which is there; undefined: nothing to add
};

struct NormalisedSum {
  at::Tensor y;
  at::Tensor x;  ///< the sum of the branches
};

}  // namespace ddpm::nn
