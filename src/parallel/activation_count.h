// How much memory activations take: counted, not estimated. The model itself runs forward, on the meta device where
// nothing is computed, and every tensor that autograd saves for backward is put on a list.
//
// A storage counts once, for the unit that saves it first; parameters do not count. The meta device counts what the
// CPU's kernels save, which the GPU's do as well, but for the normalisation of tiles (nn::Partition::stands_for_gpu).
// What a forward pass keeps follows from the list exactly; the peak follows from a formula that comes within a few
// percent of what an allocator sees. While backward is in unit u there are
//
//   Σ_{i <= u} saved_i   what it has not released yet
//   + recomputed_u       what it computes again, at most all of it at once
//   + skips_u            gradients of skips that were made before u and are used after it
//   + 2 · activation_u   a gradient on its way: what comes into an operation of the unit, and what goes out
//
// and the peak is the largest of these sums. Gradients of parameters and scratch memory of the kernels come on
// top. With small batches and wide layers that can be more than the activations: for the gradient of a large weight
// oneDNN takes up to eight times its size.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layout/range.h"
#include "nn/unet2d.h"
#include "parallel/activation_checkpointing.h"
#include "parallel/meta_forward.h"

namespace ddpm::parallel {

/// Bytes of one unit.
struct UnitActivations {
  std::string name;
  int64_t saved = 0;       ///< kept from forward until the unit's backward
  int64_t recomputed = 0;  ///< saved as well without activation checkpointing
  int64_t activation = 0;  ///< the larger one of UnitState::x before and after the unit
  int64_t skips = 0;       ///< skips that were made before the unit and are used after it
  /// On CPUs, of volumes in two bytes: what the backward pass of its largest convolution takes for the sake of float32
  /// (nn/ops/volume_products.h).
  int64_t float_copies = 0;
};

struct ActivationCount {
  std::vector<UnitActivations> units;  ///< in execution order

  /// Returns the bytes that are kept when the forward pass has ended.
  [[nodiscard]] int64_t saved() const;
  /// The largest sum of the formula above.
  [[nodiscard]] int64_t peak() const { return peak({0, std::ssize(units)}, 1); }
  /// The peak of some units alone, which have run `passes` forward passes before the first backward.
  [[nodiscard]] int64_t peak(layout::Range some, int64_t passes) const;
  /// That of CPUs, where float_copies may take the place of the second gradient on its way.
  [[nodiscard]] int64_t peak_on_cpus(layout::Range some, int64_t passes) const;
};

/// Counts one training pass of `unet` as it is bound: parameters on the meta device make it cheap, those on another
/// device are run there. Their dtype is the compute dtype; the trained ones require gradients.
ActivationCount count_activations(const nn::UNet2D& unet, const ActivationBatch& batch, ActivationCheckpointing kept);

/// Counts one training pass of a model that it builds and binds on the meta device.
ActivationCount count_activations(const nn::UNet2DConfig& model, at::ScalarType compute_dtype,
                                  const ActivationBatch& batch, ActivationCheckpointing kept);

}  // namespace ddpm::parallel
