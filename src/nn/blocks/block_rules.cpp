#include "nn/blocks/block_rules.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "nn/blocks/block_groups.h"
#include "nn/blocks/block_table.h"

namespace ddpm::nn {
namespace {

constexpr int64_t kPictureChannels = 3;

/// An activation that waits for the way up.
struct Skip {
  int64_t channels = 0;
  int64_t level = 0;  ///< halvings
};

class Walk {
 public:
  explicit Walk(const UNet2DConfig& c) : c_(c), channels_(c.block_out_channels.front()), skips_{{channels_, 0}} {}

  void run() {
    const std::size_t levels = c_.block_out_channels.size();
    for (std::size_t i = 0; i < levels; ++i) down(i, i + 1 < levels);
    if (!c_.mid_block_type.empty()) middle();
    picture_.reset();
    for (std::size_t i = 0; i < levels; ++i) up(i, i + 1 < levels);
    end();
  }

 private:
  template <typename... Args>
  [[noreturn]] static void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw base::ConfigError("model.{}", fmt::format(text, std::forward<Args>(args)...));
  }

  void check_groups(const std::string& where, int64_t channels, int64_t groups) const {
    if (groups >= 1 && channels % groups == 0) return;
    if (groups == 0 && c_.norm_num_groups == 0) {
      refuse(
          "norm_num_groups = 0 (null in diffusers): {} has {} channels; wanted: a number of groups, but for skip and K "
          "blocks alone, of 4 channels or more",
          where, channels);
    }
    if (groups == c_.norm_num_groups) {
      refuse("norm_num_groups = {}: wanted a divisor of the {} channels of {}", groups, channels, where);
    }
    refuse("{}: a norm over {} channels would have {} groups; wanted: a divisor of the channels", where, channels,
           groups);
  }

  void check_heads(const std::string& where, int64_t channels) const {
    if (c_.attention_head_dim <= channels) return;
    refuse("attention_head_dim = {}: wanted at most the {} channels of {}", c_.attention_head_dim, channels, where);
  }

  void check_attention(const BlockType& type, const std::string& where, int64_t channels) const {
    if (!type.attention) return;
    check_heads(where, channels);
    check_groups(where, channels, type.resampler == Resampler::skip ? kSkipAttentionGroups : c_.norm_num_groups);
  }

  [[nodiscard]] int64_t groups(const BlockType& type, int64_t channels) const {
    return norm_groups(type.resampler, channels, c_.norm_num_groups);
  }

  void down(std::size_t i, bool resamples) {
    const BlockType& type = block_type(c_.down_block_types[i]);
    const std::string where = fmt::format("down_block_types: block {} ({})", i, type.name);
    const int64_t out = c_.block_out_channels[i];
    for (int64_t layer = 0; layer < c_.layers_per_block; ++layer) {
      check_groups(where, channels_, groups(type, channels_));
      check_groups(where, out, groups(type, out));
      channels_ = out;
      skips_.push_back({out, level_});
    }
    check_attention(type, where, out);
    if (!resamples) return;
    if (type.resampler == Resampler::skip) halve_picture(where);
    ++level_;
    if (type.resampler != Resampler::k) skips_.push_back({out, level_});
  }

  void halve_picture(const std::string& where) {
    if (c_.in_channels != kPictureChannels) {
      refuse("{} takes images of {} channels; in_channels = {}", where, kPictureChannels, c_.in_channels);
    }
    if (picture_.value_or(0) != level_) {
      refuse(
          "{}: the images were halved {} times, its activations {} times; wanted: skip blocks on all levels above it",
          where, picture_.value_or(0), level_);
    }
    picture_ = level_ + 1;
  }

  void middle() const {
    const std::string where = "mid_block_type";
    check_groups(where, channels_, plain_norm_groups(channels_, c_.norm_num_groups));
    if (!c_.add_attention) return;
    check_heads(where, channels_);
    if (c_.attn_norm_num_groups && channels_ % *c_.attn_norm_num_groups != 0) {
      refuse("attn_norm_num_groups = {}: wanted a divisor of the last {} channels", *c_.attn_norm_num_groups,
             channels_);
    }
  }

  void up(std::size_t i, bool resamples) {
    const std::size_t levels = c_.block_out_channels.size();
    const BlockType& type = block_type(c_.up_block_types[i]);
    const std::string where = fmt::format("up_block_types: block {} ({})", i, type.name);
    const int64_t out = c_.block_out_channels[levels - 1 - i];
    const int64_t next = c_.block_out_channels[levels - 1 - std::min(i + 1, levels - 1)];
    if (type.resampler == Resampler::k) {
      up_k(type, where, out, next);
    } else {
      up_layers(type, where, i, out, next);
    }
    check_attention(type, where, out);
    if (type.resampler == Resampler::skip) double_picture(type, where, out, resamples);
    if (resamples) --level_;
  }

  void up_layers(const BlockType& type, const std::string& where, std::size_t i, int64_t out, int64_t next) {
    const std::size_t levels = c_.block_out_channels.size();
    const int64_t before = i == 0 ? out : c_.block_out_channels[levels - i];
    for (int64_t layer = 0; layer <= c_.layers_per_block; ++layer) {
      const int64_t from_below = layer == 0 ? before : out;
      const int64_t skip = layer == c_.layers_per_block ? next : out;
      take(where, from_below + skip, 1);
      check_groups(where, from_below + skip, joint_norm_groups(type, from_below, skip, c_.norm_num_groups));
      check_groups(where, out, groups(type, out));
      channels_ = out;
    }
  }

  void up_k(const BlockType& type, const std::string& where, int64_t out, int64_t next) {
    take(where, 2 * out, c_.layers_per_block);
    for (int64_t layer = 0; layer < c_.layers_per_block; ++layer) {
      const int64_t in = layer == 0 ? 2 * out : out;
      const int64_t result = layer + 1 == c_.layers_per_block ? next : out;
      check_groups(where, in, groups(type, in));
      check_groups(where, result, groups(type, out));
    }
    channels_ = next;
  }

  /// The newest of `count` skips joins the activation, which then has `wanted` channels.
  void take(const std::string& where, int64_t wanted, int64_t count) {
    if (skips_.empty()) refuse("{}: there is no skip left to take", where);
    const Skip skip = skips_.back();
    if (skip.level != level_) {
      refuse("{} would join a skip that was halved {} times and an activation that was halved {} times", where,
             skip.level, level_);
    }
    if (channels_ + skip.channels != wanted) {
      refuse("{} would join {} and {} channels; wanted {} in all", where, channels_, skip.channels, wanted);
    }
    skips_.resize(skips_.size() - std::min(skips_.size(), static_cast<std::size_t>(count)));
  }

  void double_picture(const BlockType& type, const std::string& where, int64_t out, bool resamples) {
    if (picture_) --*picture_;
    if (!resamples) return;
    if (picture_ && *picture_ != level_) {
      refuse("{}: the prediction so far has another size; wanted: skip blocks on all levels that follow the first one",
             where);
    }
    check_groups(where, out, groups(type, out));
    picture_ = level_;
  }

  void end() const {
    const int64_t first = c_.block_out_channels.front();
    if (picture_ && *picture_ != 0) {
      refuse(
          "up_block_types: the prediction of the skip blocks does not reach the size of the image; wanted: skip blocks "
          "on all levels that follow the first one");
    }
    if (picture_ && c_.out_channels != kPictureChannels) {
      refuse("up_block_types: skip blocks predict {} channels; out_channels = {}", kPictureChannels, c_.out_channels);
    }
    if (channels_ != first) refuse("up_block_types: the last block has {} channels; wanted {}", channels_, first);
    check_groups("the last norm", first, plain_norm_groups(first, c_.norm_num_groups));
  }

  const UNet2DConfig& c_;
  int64_t channels_;  // channels of the activation so far
  int64_t level_ = 0;
  std::vector<Skip> skips_;
  std::optional<int64_t> picture_;  // halvings of the picture, where there is one
};

}  // namespace

void check_blocks(const UNet2DConfig& c) { Walk(c).run(); }

}  // namespace ddpm::nn
