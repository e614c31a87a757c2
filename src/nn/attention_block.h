// Self-attention over the pixels with a residual connection: diffusers' Attention as UNet2DModel uses it.
//
//   y = (x + to_out(attention(to_q(n), to_k(n), to_v(n)))) / output_scale,   n = group_norm(x)
//
// There are as many whole heads as the channels hold, so queries, keys and values may be narrower than x.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/layers.h"
#include "nn/unit.h"

namespace ddpm::nn {

struct AttentionOptions {
  int64_t channels = 0;
  int64_t head_dim = 8;                  ///< channels that one head sees
  std::optional<GroupNormOptions> norm;  ///< absent: no normalisation
  double output_scale = 1.0;
  /// An image that is rolled gives the rolled result to the bit, on CPUs and without gradients (nn/ops/row_order.h);
  /// the norm needs its own `in_any_order`.
  bool in_any_order = false;
};

class AttentionBlock {
 public:
  AttentionBlock(const std::string& prefix, const AttentionOptions& options);
  /// x, the sum of the branches, [N, channels, H, W] -> the same shape
  [[nodiscard]] at::Tensor forward(Branches branches, const ForwardContext& context) const;
  [[nodiscard]] graph::Value record(graph::Value x, graph::Graph& g) const;
  /// Counts the operations of one image x of this size.
  [[nodiscard]] Operations operations(const ImageSize& x) const;
  void collect(OwnedLayers& out);
  /// From now on, passes without gradients take attention_inference().
  void prepare_for_inference() { for_inference_ = true; }

 private:
  /// rows [N, positions, channels] -> the same shape, before the residual connection.
  [[nodiscard]] at::Tensor attend(const at::Tensor& rows, const Partition& partition) const;
  [[nodiscard]] NormalisedSum normalise(Branches branches, const Partition& partition) const;
  /// Queries, keys and values [N, positions, heads * head_dim] of the heads that are here.
  [[nodiscard]] std::array<at::Tensor, 3> project(const at::Tensor& rows, const Partition& partition) const;

  AttentionOptions options_;
  int64_t heads_;
  bool for_inference_ = false;
  std::optional<GroupNorm> group_norm_;
  Linear to_q_;
  Linear to_k_;
  Linear to_v_;
  Linear to_out_;
};

}  // namespace ddpm::nn
