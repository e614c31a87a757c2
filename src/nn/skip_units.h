// The ends of skip blocks (SkipDownBlock2D, AttnSkipDownBlock2D and their partners on the way up), which carry a
// picture beside the activation: progressive input on the way down, progressive output on the way up (Song et al.,
// 2021, appendix H). Resamplings are FIR filters.
#pragma once

#include <cstdint>
#include <string>

#include "nn/layers.h"
#include "nn/resnet_block.h"
#include "nn/unit.h"

namespace ddpm::nn {

/// Channels of the pictures: diffusers fixes them.
constexpr int64_t kPictureChannels = 3;

/// Halves the activation by a residual block and the picture by a filter, adds the picture, and pushes a skip:
/// "PREFIX.resnet_down" and "PREFIX.skip_conv".
class SkipDownUnit final : public Unit {
 public:
  SkipDownUnit(const std::string& prefix, const ResnetOptions& resnet);
  [[nodiscard]] UnitState forward(UnitState state, const ForwardContext& context) const override;
  [[nodiscard]] graph::UnitValues record(graph::UnitValues state, graph::Graph& g) const override;
  [[nodiscard]] Operations operations(ImageSize& size) const override;
  void prepare_for_inference() override { resnet_.prepare_for_inference(); }

 private:
  ResnetBlock resnet_;
  Convolution skip_conv_;
};

/// Adds this level's prediction to the picture, then doubles the activation by a residual block: "PREFIX.skip_norm",
/// "PREFIX.skip_conv" and "PREFIX.resnet_up".
class SkipUpUnit final : public Unit {
 public:
  /// `begins`: there is no prediction yet.
  SkipUpUnit(const std::string& prefix, const ResnetOptions& resnet, bool begins);
  [[nodiscard]] UnitState forward(UnitState state, const ForwardContext& context) const override;
  [[nodiscard]] graph::UnitValues record(graph::UnitValues state, graph::Graph& g) const override;
  [[nodiscard]] Operations operations(ImageSize& size) const override;
  void prepare_for_inference() override { resnet_.prepare_for_inference(); }

 private:
  bool begins_;
  GroupNorm skip_norm_;
  Convolution skip_conv_;
  ResnetBlock resnet_;
};

}  // namespace ddpm::nn
