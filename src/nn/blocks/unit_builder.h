// What the builders of blocks share: the list of units that grows, and the channels that flow from one to the next.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/blocks/block_table.h"
#include "nn/config.h"
#include "nn/k_units.h"
#include "nn/unet2d_units.h"

namespace ddpm::nn {

class UnitBuilder {
 public:
  /// `c` is valid and outlives the builder. Begins with the InputUnit.
  explicit UnitBuilder(const UNet2DConfig& c);

  [[nodiscard]] const UNet2DConfig& config() const { return c_; }
  /// Channels of the activation.
  [[nodiscard]] int64_t channels() const { return channels_; }

  /// Returns the options that the configuration gives to most blocks. Each call stands for one more dropout layer:
  /// layers are counted in the order of calls.
  ResnetOptions resnet(int64_t in, int64_t out);
  [[nodiscard]] AttentionOptions attention(int64_t channels) const;

  template <typename UnitType, typename... Args>
  void add(Args&&... args) {
    units_.push_back(std::make_unique<UnitType>(std::forward<Args>(args)...));
  }

  /// Residual block i of a block, with attention if its type has it: "PREFIX.resnets.I" and "PREFIX.attentions.I".
  void add_residual(const BlockType& type, const BlockPlace& place, int64_t i, SkipUse skip);
  /// A block's resampler by a convolution or in a residual block. `how` is the configuration's downsample_type or
  /// upsample_type, which some block types heed.
  void add_resampler(const BlockType& type, const std::string& name, ResamplerName how);
  /// Residual block i of a skip block, with `attention`.
  void add_skip_residual(const BlockType& type, const BlockPlace& place, int64_t i, SkipUse skip, bool attention);
  /// The residual block that ends a skip block.
  ResnetOptions skip_resampler(const BlockType& type, const BlockPlace& place);
  /// Residual block i of a K block.
  void add_k_residual(const BlockPlace& place, int64_t i, KResnetOptions options);

  /// True for the first block that predicts beside the activation.
  bool begins_prediction() { return !std::exchange(predicts_, true); }
  void push_skip() { skips_.push_back(channels_); }
  int64_t pop_skip();

  /// Ends with the OutputUnit.
  std::vector<std::unique_ptr<Unit>> finish();

 private:
  const UNet2DConfig& c_;
  GroupNormOptions norm_;
  int64_t time_embedding_dim_;
  uint32_t dropout_layers_ = 0;
  int64_t channels_;            // channels of the activation so far
  std::vector<int64_t> skips_;  // channels of each skip
  bool predicts_ = false;       // there is a prediction beside the activation
  std::vector<std::unique_ptr<Unit>> units_;
};

}  // namespace ddpm::nn
