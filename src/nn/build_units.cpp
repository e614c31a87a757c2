// The walk over a UNet2DConfig that lays out its units, channel counts and names as diffusers' UNet2DModel does.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "nn/unet2d_units.h"

namespace ddpm::nn {
namespace {

class Builder {
 public:
  explicit Builder(const UNet2DConfig& c)
      : c_(c), norm_{.groups = c.norm_num_groups, .eps = c.norm_eps}, time_embedding_dim_(time_embedding_dim(c)) {}

  std::vector<std::unique_ptr<Unit>> build() {
    add<InputUnit>(c_);
    for (std::size_t level = 0; level < levels(); ++level) add_down_block(level);
    if (!c_.mid_block_type.empty()) add_mid_block();
    for (std::size_t i = 0; i < levels(); ++i) add_up_block(i);
    add<OutputUnit>(c_);
    return std::move(units_);
  }

 private:
  template <typename UnitType, typename... Args>
  void add(Args&&... args) {
    units_.push_back(std::make_unique<UnitType>(std::forward<Args>(args)...));
  }

  [[nodiscard]] std::size_t levels() const { return c_.block_out_channels.size(); }

  ResnetOptions resnet(int64_t in, int64_t out) {
    ResnetOptions o{.in = in, .out = out, .time_embedding_dim = time_embedding_dim_, .norm = norm_};
    o.norm.activation = activation_of(c_.act_fn);
    o.scale_shift = c_.resnet_time_scale_shift == TimeScaleShift::scale_shift;
    o.dropout = c_.dropout;
    o.dropout_layer = dropout_layers_++;
    return o;
  }

  [[nodiscard]] AttentionOptions attention(int64_t channels) const {
    return {
        .channels = channels, .head_dim = c_.attention_head_dim == 0 ? channels : c_.attention_head_dim, .norm = norm_};
  }

  [[nodiscard]] std::optional<AttentionOptions> attention_of(const std::string& block_type, int64_t channels) const {
    return has_attention(block_type) ? std::optional(attention(channels)) : std::nullopt;
  }

  // Only the block types with attention know resampling inside a residual block; the others use a convolution always.
  void add_resampler(const std::string& name, const std::string& block_type, const std::string& resampler,
                     int64_t channels, Resampling resampling) {
    if (has_attention(block_type) && resampler == "resnet") {
      ResnetOptions o = resnet(channels, channels);
      o.resampling = resampling;
      add<ResnetUnit>(name, o, "", std::nullopt, resampling == Resampling::down ? SkipUse::push : SkipUse::none);
    } else {
      add<ResampleUnit>(name, channels, resampling, c_.downsample_padding);
    }
  }

  void add_down_block(std::size_t level) {
    const std::string prefix = fmt::format("down_blocks.{}", level);
    const std::string& type = c_.down_block_types[level];
    const int64_t out = c_.block_out_channels[level];
    for (int64_t i = 0; i < c_.layers_per_block; ++i) {
      const int64_t in = i > 0 ? out : c_.block_out_channels[level == 0 ? 0 : level - 1];
      add<ResnetUnit>(fmt::format("{}.resnets.{}", prefix, i), resnet(in, out),
                      fmt::format("{}.attentions.{}", prefix, i), attention_of(type, out), SkipUse::push);
    }
    if (level + 1 < levels()) {
      add_resampler(prefix + ".downsamplers.0", type, c_.downsample_type, out, Resampling::down);
    }
  }

  void add_mid_block() {
    const int64_t channels = c_.block_out_channels.back();
    std::optional<AttentionOptions> middle;
    if (c_.add_attention) {
      middle = attention(channels);
      middle->output_scale = c_.mid_block_scale_factor;
      // diffusers leaves the norm out with scale_shift, unless its groups are given.
      if (c_.attn_norm_num_groups)
        middle->norm->groups = *c_.attn_norm_num_groups;
      else if (c_.resnet_time_scale_shift == TimeScaleShift::scale_shift)
        middle->norm.reset();
    }
    for (const int i : {0, 1}) {
      ResnetOptions o = resnet(channels, channels);
      o.output_scale = c_.mid_block_scale_factor;
      add<ResnetUnit>(fmt::format("mid_block.resnets.{}", i), o, "mid_block.attentions.0",
                      i == 0 ? middle : std::nullopt, SkipUse::none);
    }
  }

  // Up block i works at level L - 1 - i. Its skips come from that level, the last one from the level above (its input).
  void add_up_block(std::size_t i) {
    const std::string prefix = fmt::format("up_blocks.{}", i);
    const std::string& type = c_.up_block_types[i];
    const std::size_t level = levels() - 1 - i;
    const int64_t out = c_.block_out_channels[level];
    const int64_t previous = c_.block_out_channels[std::min(level + 1, levels() - 1)];
    const int64_t above = c_.block_out_channels[level == 0 ? 0 : level - 1];
    for (int64_t j = 0; j <= c_.layers_per_block; ++j) {
      const int64_t in = j == 0 ? previous : out;
      const int64_t skip = j == c_.layers_per_block ? above : out;
      add<ResnetUnit>(fmt::format("{}.resnets.{}", prefix, j), resnet(in + skip, out),
                      fmt::format("{}.attentions.{}", prefix, j), attention_of(type, out), SkipUse::pop);
    }
    if (level > 0) add_resampler(prefix + ".upsamplers.0", type, c_.upsample_type, out, Resampling::up);
  }

  const UNet2DConfig& c_;
  GroupNormOptions norm_;
  int64_t time_embedding_dim_;
  uint32_t dropout_layers_ = 0;
  std::vector<std::unique_ptr<Unit>> units_;
};

}  // namespace

std::vector<std::unique_ptr<Unit>> build_units(const UNet2DConfig& c) { return Builder(c).build(); }

}  // namespace ddpm::nn
