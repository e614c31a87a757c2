// The units of UNet2D, in the order in which a forward pass meets their kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/attention_block.h"
#include "nn/config.h"
#include "nn/layers.h"
#include "nn/resnet_block.h"
#include "nn/time_embedding.h"
#include "nn/unit.h"

namespace ddpm::nn {

/// "conv_in": the embeddings and the first convolution. Takes UnitState::x as the images; sets temb, pushes a skip, and
/// keeps the embedding and the picture where the model has blocks that read them.
class InputUnit final : public Unit {
 public:
  explicit InputUnit(const UNet2DConfig& c);
  [[nodiscard]] UnitState forward(UnitState state, const ForwardContext& context) const override;
  [[nodiscard]] graph::UnitValues record(graph::UnitValues state, graph::Graph& g) const override;
  [[nodiscard]] Operations operations(ImageSize& size) const override;

 private:
  Activation activation_;
  bool center_input_sample_;
  bool keeps_embedding_;
  bool keeps_picture_;
  ConditionEmbedding condition_;
  Convolution conv_in_;
};

enum class SkipUse : uint8_t { none, push, pop };

/// A residual block, followed by attention where the model has it. On the way up it first takes a skip as more
/// channels.
class ResnetUnit final : public Unit {
 public:
  /// `attention` comes with the prefix of its parameters.
  ResnetUnit(const std::string& name, const ResnetOptions& resnet, const std::string& attention_name,
             const std::optional<AttentionOptions>& attention, SkipUse skip);
  [[nodiscard]] UnitState forward(UnitState state, const ForwardContext& context) const override;
  [[nodiscard]] graph::UnitValues record(graph::UnitValues state, graph::Graph& g) const override;
  [[nodiscard]] Operations operations(ImageSize& size) const override;
  void prepare_for_inference() override;

 private:
  [[nodiscard]] at::Tensor attend(Branches branches, const ForwardContext& context) const;

  SkipUse skip_;
  ResnetBlock resnet_;
  std::optional<AttentionBlock> attention_;
};

/// Downsampling by a strided convolution (pushes a skip), or upsampling by repetition and a convolution.
class ResampleUnit final : public Unit {
 public:
  ResampleUnit(const std::string& name, int64_t channels, Resampling resampling, const UNet2DConfig& c);
  [[nodiscard]] UnitState forward(UnitState state, const ForwardContext& context) const override;
  [[nodiscard]] graph::UnitValues record(graph::UnitValues state, graph::Graph& g) const override;
  [[nodiscard]] Operations operations(ImageSize& size) const override;
  void prepare_for_inference() override;

 private:
  Resampling resampling_;
  Convolution conv_;
};

/// "conv_out": last norm, SiLU and convolution; UnitState::x becomes the prediction, to which that of skip blocks is
/// added.
class OutputUnit final : public Unit {
 public:
  /// `adds_picture`: UnitState::picture is a prediction at half the resolution.
  OutputUnit(const UNet2DConfig& c, bool adds_picture);
  [[nodiscard]] UnitState forward(UnitState state, const ForwardContext& context) const override;
  [[nodiscard]] graph::UnitValues record(graph::UnitValues state, graph::Graph& g) const override;
  [[nodiscard]] Operations operations(ImageSize& size) const override;

 private:
  bool divide_by_timesteps_;
  bool adds_picture_;
  int64_t out_channels_;
  GroupNorm conv_norm_out_;
  Convolution conv_out_;
};

/// All units of a valid configuration in execution order.
std::vector<std::unique_ptr<Unit>> build_units(const UNet2DConfig& c);

}  // namespace ddpm::nn
