// The residual block of diffusers (ResnetBlock2D), optionally resampling by two between its norm and first convolution:
//
//   h = conv1(resample(act(norm1(x))))
//   h = conv2(dropout(act(norm2(h, time))))
//   y = (shortcut(resample(x)) + h) / output_scale
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/layers.h"
#include "nn/operations.h"
#include "nn/ops/resample.h"
#include "nn/unit.h"

namespace ddpm::nn {

struct ResnetOptions {
  int64_t in = 0;
  int64_t out = 0;
  int64_t time_embedding_dim = 0;
  GroupNormOptions norm;
  std::optional<int64_t> groups_out = std::nullopt;  ///< groups of the second norm; absent: those of `norm`
  bool shortcut = false;     ///< a convolution in the shortcut even where the channels stay the same
  bool scale_shift = false;  ///< true: the time embedding scales and shifts after norm2; false: it is added before
  double dropout = 0.0;
  uint32_t dropout_layer = 0;  ///< its place among the model's dropout layers
  double output_scale = 1.0;
  Resampling resampling = Resampling::none;
  ResamplingFilter filter = ResamplingFilter::box;
  int dimensions = 2;  ///< axes of its convolutions: 2, or 3 for volumes
};

class ResnetBlock {
 public:
  ResnetBlock(const std::string& prefix, const ResnetOptions& options);
  /// x [N, in, H, W], temb [N, time_embedding_dim] already activated -> [N, out, H', W'], the sum not yet taken
  [[nodiscard]] Branches forward(const at::Tensor& x, const at::Tensor& temb, const ForwardContext& context) const;
  [[nodiscard]] graph::Value record(graph::Value x, graph::Value temb, graph::Graph& g) const;
  /// Counts the operations of one image x of this size.
  [[nodiscard]] Operations operations(const ImageSize& x) const;
  [[nodiscard]] Resampling resampling() const { return options_.resampling; }
  void prepare_for_inference();
  void collect(OwnedLayers& out);

 private:
  /// Whether the first convolution sees each pixel twice along each axis.
  [[nodiscard]] bool repeats() const;
  [[nodiscard]] Branches branches(const at::Tensor& h, const at::Tensor& head, const Partition& partition) const;
  [[nodiscard]] Modulation modulation(const at::Tensor& temb, const Partition& partition) const;
  [[nodiscard]] graph::Modulation record_modulation(graph::Value temb, graph::Graph& g) const;

  ResnetOptions options_;
  GroupNorm norm1_;
  Convolution conv1_;
  Linear time_emb_proj_;
  GroupNorm norm2_;
  Convolution conv2_;
  std::optional<Convolution> conv_shortcut_;
};

}  // namespace ddpm::nn
