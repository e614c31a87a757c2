// The layers that own parameters. Each is its parameters and one forward(); names are prefix + ".weight", ".bias".
// Layers that multiply matrices count their operations, from which those of units and models follow. record() describes
// forward() as operations of a graph.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/adapter.h"
#include "nn/graph.h"
#include "nn/operations.h"
#include "nn/ops/convolution.h"
#include "nn/ops/group_norm_silu.h"
#include "nn/ops/joint_linear.h"
#include "nn/ops/tile_convolution.h"
#include "nn/ops/winograd.h"
#include "nn/parameter.h"
#include "nn/partition.h"

namespace ddpm::nn {

/// Which way tensor parallelism cuts a layer's weight: by its outputs (then the bias too), its inputs, or not at all.
struct Cut {
  enum class Along : uint8_t { none, outputs, inputs };
  Along along = Along::none;
  int64_t units = 1;  ///< heads or groups of channels, which are not divided

  static Cut outputs(int64_t units) { return {Along::outputs, units}; }
  static Cut inputs(int64_t units) { return {Along::inputs, units}; }
};

class Linear : public AdaptableLayer {
 public:
  Linear(const std::string& prefix, int64_t in, int64_t out, Cut cut = {});
  /// x [..., in] -> [..., out]. Of a layer that is cut, x is Partition::to_channel_parts(), or has the channels that
  /// are here, and so has the result.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const Partition& partition) const;
  /// forward() of a layer that is never cut.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const { return forward(x, whole_image()); }
  [[nodiscard]] graph::Value record(graph::Value x, graph::Graph& g) const;
  /// Counts the operations for that many rows [in].
  [[nodiscard]] Operations operations(double rows) const;
  /// Weight and bias of a layer without an adapter that is not cut by its inputs.
  [[nodiscard]] LinearWeights weights() const { return {weight_.value, bias_.value}; }
  void collect(OwnedLayers& out);

 private:
  Parameter bias_;
};

class Convolution : public AdaptableLayer {
 public:
  Convolution(const std::string& prefix, int64_t in, int64_t out, const ConvolutionOptions& options = {}, Cut cut = {});
  /// The forward pass of a layer that is cut, see Linear.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const Partition& partition) const;
  /// forward() but for the bias, which the caller adds; the layer is not cut by its inputs.
  [[nodiscard]] at::Tensor forward_unbiased(const at::Tensor& x, const Partition& partition) const;
  [[nodiscard]] const at::Tensor& bias() const { return bias_.value; }
  /// forward() of x with each pixel twice along each axis; the kernel is 3 along each.
  [[nodiscard]] at::Tensor forward_repeated(const at::Tensor& x, const Partition& partition) const;
  [[nodiscard]] graph::Value record(graph::Value x, graph::Graph& g) const;
  [[nodiscard]] graph::Value record_repeated(graph::Value x, graph::Graph& g) const;
  /// Makes ready what is taken without gradients, where the image ends in zeros and is not cut: nn/ops/winograd.h by
  /// both; else nn/ops/tile_convolution.h by the one that `repeated` names, or nn/ops/repeated_convolution.h by
  /// forward_repeated(). A layer with an adapter has none. Call it again after the weights have changed.
  void prepare_for_inference(bool repeated);
  /// Counts the operations for one image x of this size.
  [[nodiscard]] Operations operations(const ImageSize& x) const;
  [[nodiscard]] at::ScalarType dtype() const { return weight_.value.scalar_type(); }
  void collect(OwnedLayers& out);

 private:
  [[nodiscard]] at::Tensor convolved(const at::Tensor& x, const at::Tensor& bias, const Partition& partition) const;
  /// Whether `prepared` was made and serves x: without gradients, on the CPU, of an image that is not cut.
  [[nodiscard]] static bool takes(const at::Tensor& prepared, const at::Tensor& x, const Partition& partition);
  [[nodiscard]] bool takes_winograd(const at::Tensor& x, const Partition& partition, int64_t scale) const;

  ConvolutionOptions options_;
  Parameter bias_;
  // Undefined: nothing was made ready.
  WinogradWeights winograd_;
  TileWeights tiles_;
  at::Tensor repeated_;
};

/// Group normalisation with activation and time modulation: see nn/ops/group_norm_silu.h.
class GroupNorm {
 public:
  GroupNorm(const std::string& prefix, int64_t channels, const GroupNormOptions& options, Cut cut = {});
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const Modulation& modulation, const Partition& partition) const;
  /// Runs at the head of a residual connection, and also returns the sum of the branches, for the rest of it.
  [[nodiscard]] NormalisedSum forward(const Branches& branches, const Partition& partition) const;
  [[nodiscard]] graph::Value record(graph::Value x, const graph::Modulation& modulation, graph::Graph& g) const;
  void collect(OwnedLayers& out);

 private:
  [[nodiscard]] GroupNormOptions options_here() const;

  GroupNormOptions options_;
  Parameter weight_;
  Parameter bias_;
};

/// Group normalisation whose scale and shift are a linear function of the time embedding, which is not activated:
/// diffusers' AdaGroupNorm.
class AdaGroupNorm {
 public:
  /// `cut` says how x is cut; the layer itself is not.
  AdaGroupNorm(const std::string& prefix, int64_t channels, int64_t embedding_dim, const GroupNormOptions& options,
               Cut cut = {});
  /// embedding [N, embedding_dim]
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const at::Tensor& embedding, const Partition& partition) const;
  [[nodiscard]] graph::Value record(graph::Value x, graph::Value embedding, graph::Graph& g) const;
  /// Counts the operations of one image.
  [[nodiscard]] Operations operations() const { return linear_.operations(1); }
  void collect(OwnedLayers& out) { linear_.collect(out); }

 private:
  GroupNormOptions options_;
  Cut cut_;
  Linear linear_;
};

/// The two halves of a projection [N, 2 C], one after the other; where what they modulate is cut, the channels of each
/// that are here.
std::array<at::Tensor, 2> halves(const at::Tensor& both, bool cut, const Partition& partition);

/// A table of vectors, drawn from the standard normal distribution.
class Embedding {
 public:
  Embedding(const std::string& prefix, int64_t count, int64_t width);
  /// indices [N], integers in [0, count) -> [N, width]
  [[nodiscard]] at::Tensor forward(const at::Tensor& indices) const;
  [[nodiscard]] graph::Value record(graph::Value indices, graph::Graph& g) const;
  void collect(OwnedLayers& out);

 private:
  Parameter weight_;
};

}  // namespace ddpm::nn
