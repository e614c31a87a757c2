// The residual units of KDownBlock2D and KUpBlock2D, whose norms take scale and shift from the time embedding:
// diffusers' ResnetBlockCondNorm2D with "ada_group" (after k-diffusion's UNet).
//
//   h = conv1(act(ada_norm1(x, embedding)))
//   h = conv2(dropout(act(ada_norm2(h, embedding))))
//   y = shortcut(x) + h
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nn/layers.h"
#include "nn/ops/resample.h"
#include "nn/unit.h"

namespace ddpm::nn {

struct KResnetOptions {
  int64_t in = 0;
  int64_t out = 0;
  int64_t time_embedding_dim = 0;
  GroupNormOptions norm = {};  ///< the first norm; the second one differs in its groups
  int64_t groups_out = 0;      ///< groups of the second norm
  double dropout = 0.0;
  uint32_t dropout_layer = 0;                      ///< its place among the model's dropout layers
  bool pushes_skip = false;                        ///< the result, before it is resampled
  int64_t takes_skips = 0;                         ///< the newest joins the channels of x, older ones are dropped
  Resampling resampling_after = Resampling::none;  ///< how the result is resampled, at the end of a block
};

/// Reads UnitState::embedding.
class KResnetUnit final : public Unit {
 public:
  KResnetUnit(const std::string& name, const KResnetOptions& options);
  [[nodiscard]] UnitState forward(UnitState state, const ForwardContext& context) const override;
  [[nodiscard]] graph::UnitValues record(graph::UnitValues state, graph::Graph& g) const override;
  [[nodiscard]] Operations operations(ImageSize& size) const override;
  void prepare_for_inference() override;

 private:
  [[nodiscard]] at::Tensor residual_block(const at::Tensor& x, const at::Tensor& embedding,
                                          const ForwardContext& context) const;
  [[nodiscard]] graph::Value record_block(graph::Value x, graph::Value embedding, graph::Graph& g) const;

  KResnetOptions options_;
  AdaGroupNorm norm1_;
  Convolution conv1_;
  AdaGroupNorm norm2_;
  Convolution conv2_;
  std::optional<Convolution> conv_shortcut_;
};

}  // namespace ddpm::nn
