#include "nn/config.h"

#include <string_view>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "config/resolve.h"
#include "nn/blocks/block_table.h"

namespace ddpm::nn {
namespace {

using Names = std::vector<std::string>;

const Names kResamplers = {"conv", "resnet"};

// Far beyond any model, and small enough that no product of two of them overflows.
constexpr int64_t kMaxLevels = 16;
constexpr int64_t kMaxChannels = 65536;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxTimesteps = 1'000'000;
constexpr int64_t kMaxClasses = 100'000'000;
constexpr int64_t kMaxImageSize = 65536;

template <typename Seen>
[[noreturn]] void refuse(std::string_view key, const Seen& seen, const std::string& wanted) {
  throw base::ConfigError("model.{} = {}: wanted {}", key, seen, wanted);
}

/// Holds each value against its key's declaration: describe() is the only place that says what a key may be.
void check_values(const UNet2DConfig& c) {
  UNet2DConfig copy = c;
  config::Schema schema;
  config::Section section = schema.section("model", "", config::Identity::fixed);
  describe(section, copy);
  config::check_values(schema);
}

void check_lengths(const UNet2DConfig& c) {
  const std::size_t levels = c.block_out_channels.size();
  if (levels == 0) refuse("block_out_channels", "[]", "at least one number of channels");
  if (levels > kMaxLevels) {
    refuse("block_out_channels", fmt::format("{} levels", levels), fmt::format("at most {}", kMaxLevels));
  }
  const auto same_length = [levels](std::string_view key, const Names& types) {
    if (types.size() == levels) return;
    refuse(key, fmt::format("{} block types", types.size()), fmt::format("{}, as many as block_out_channels", levels));
  };
  same_length("down_block_types", c.down_block_types);
  same_length("up_block_types", c.up_block_types);
}

void check_heads(const UNet2DConfig& c, int64_t channels) {
  if (c.attention_head_dim == 0 || channels % c.attention_head_dim == 0) return;
  refuse("attention_head_dim", c.attention_head_dim, fmt::format("a divisor of the {} channels it splits", channels));
}

void check_divisibility(const UNet2DConfig& c) {
  const std::size_t levels = c.block_out_channels.size();
  for (std::size_t i = 0; i < levels; ++i) {
    const int64_t channels = c.block_out_channels[i];
    if (channels % c.norm_num_groups != 0) {
      refuse("block_out_channels", channels,
             fmt::format("positive multiples of norm_num_groups = {}", c.norm_num_groups));
    }
    if (block_type(c.down_block_types[i]).attention || block_type(c.up_block_types[levels - 1 - i]).attention)
      check_heads(c, channels);
  }
  if (!block_type(c.mid_block_type).attention || !c.add_attention) return;
  check_heads(c, c.block_out_channels.back());
  if (c.attn_norm_num_groups && c.block_out_channels.back() % *c.attn_norm_num_groups != 0) {
    refuse("attn_norm_num_groups", *c.attn_norm_num_groups,
           fmt::format("a divisor of the last {} channels", c.block_out_channels.back()));
  }
}

void check_embeddings(const UNet2DConfig& c) {
  const int64_t half = c.block_out_channels.front() / 2;
  if (c.time_embedding_type == TimeEmbedding::positional && (half < 1 || c.freq_shift >= half)) {
    refuse("freq_shift", c.freq_shift,
           fmt::format("less than half of the first {} channels", c.block_out_channels.front()));
  }
  if (c.time_embedding_type == TimeEmbedding::learned && !c.num_train_timesteps) {
    refuse("num_train_timesteps", "null", "the number of time steps, since time_embedding_type = \"learned\"");
  }
  if (c.class_embed_type && c.num_class_embeds) {
    refuse("num_class_embeds", *c.num_class_embeds,
           fmt::format("none, since class_embed_type = \"{}\" has no table", base::name_of(*c.class_embed_type)));
  }
}

void check_sample_size(const UNet2DConfig& c) {
  if (c.sample_size.size() > 2) {
    refuse("sample_size", fmt::format("[{}]", fmt::join(c.sample_size, ", ")), "one number, or height and width");
  }
  const int64_t multiple = size_multiple(c);
  for (const int64_t size : c.sample_size) {
    if (size % multiple != 0) {
      refuse("sample_size", size,
             fmt::format("a positive multiple of {} ({} halvings)", multiple, c.block_out_channels.size() - 1));
    }
  }
}

void describe_embeddings(config::Section& section, UNet2DConfig& c) {
  section
      .key("time_embedding_type", c.time_embedding_type,
           "Features of the time step: sinusoids, random Fourier features of its logarithm, or a trained table")
      .key("time_embedding_dim", c.time_embedding_dim, "Width of the time embedding",
           {.min = 1, .max = kMaxChannels, .default_text = "4 x block_out_channels[0]"})
      .key("freq_shift", c.freq_shift, "Subtracted from the number of sinusoid frequencies in their exponent",
           {.min = -kMaxChannels, .max = kMaxChannels})
      .key("flip_sin_to_cos", c.flip_sin_to_cos, "Sinusoids: cosines before sines")
      .key("class_embed_type", c.class_embed_type,
           "Class labels as another time step, or as ready-made embeddings "
           "(which no dataset holds); absent: a table of num_class_embeds")
      .key("num_class_embeds", c.num_class_embeds, "Number of classes in the trained table; absent: no table",
           {.min = 1, .max = kMaxClasses})
      .key("num_train_timesteps", c.num_train_timesteps, "Rows of the table of time_embedding_type = \"learned\"",
           {.min = 1, .max = kMaxTimesteps});
}

void describe_blocks(config::Section& section, UNet2DConfig& c) {
  section
      .key("down_block_types", c.down_block_types, "Block of each level on the way down",
           {.choices = block_names(Resampling::down)})
      .key("mid_block_type", c.mid_block_type, "Block between down and up; \"\" (null in diffusers): none",
           {.choices = block_names(Resampling::none)})
      .key("up_block_types", c.up_block_types, "Block of each level on the way up",
           {.choices = block_names(Resampling::up)})
      .key("block_out_channels", c.block_out_channels, "Channels of each level, multiples of norm_num_groups",
           {.min = 1, .max = kMaxChannels})
      .key("layers_per_block", c.layers_per_block, "Residual blocks per level on the way down; one more going up",
           {.min = 1, .max = kMaxLayers})
      .key("mid_block_scale_factor", c.mid_block_scale_factor, "Divides the outputs of the mid block's layers",
           {.min = 0, .above_min = true})
      .key("downsample_padding", c.downsample_padding,
           "Zeros around the image in strided convolutions; 0: below and to the right only", {.min = 0, .max = 1})
      .key("downsample_type", c.downsample_type, "Downsampler of the blocks with attention", {.choices = kResamplers})
      .key("upsample_type", c.upsample_type, "Upsampler of the blocks with attention", {.choices = kResamplers});
}

}  // namespace

void describe(config::Section& section, UNet2DConfig& c) {
  section
      .key("sample_size", c.sample_size,
           "Image size in pixels: one number, or height and width; empty: that of the data",
           {.min = 1, .max = kMaxImageSize})
      .key("in_channels", c.in_channels, "Channels of the noisy image", {.min = 1, .max = kMaxChannels})
      .key("out_channels", c.out_channels, "Channels of the prediction", {.min = 1, .max = kMaxChannels})
      .key("center_input_sample", c.center_input_sample, "Map the input x to 2 x - 1 first");
  describe_embeddings(section, c);
  describe_blocks(section, c);
  section
      .key("dropout", c.dropout, "Probability of dropping an activation in residual blocks",
           {.min = 0, .max = 1, .below_max = true})
      .key("act_fn", c.act_fn, "Activation of residual blocks")
      .key("attention_head_dim", c.attention_head_dim,
           "Channels per attention head; 0 (null in diffusers): one head over all channels",
           {.min = 0, .max = kMaxChannels})
      .key("norm_num_groups", c.norm_num_groups, "Groups of each group normalisation", {.min = 1, .max = kMaxChannels})
      .key("attn_norm_num_groups", c.attn_norm_num_groups, "Groups of the mid block's attention normalisation",
           {.min = 1, .max = kMaxChannels, .default_text = "norm_num_groups; with scale_shift no normalisation"})
      .key("norm_eps", c.norm_eps, "Added to the variance in group normalisation", {.min = 0, .above_min = true})
      .key(
          "resnet_time_scale_shift", c.resnet_time_scale_shift,
          "How residual blocks take the time embedding: added before the second norm, or scaling and shifting after it")
      .key("add_attention", c.add_attention, "Attention in the mid block");
}

void validate(const UNet2DConfig& c) {
  check_values(c);
  check_lengths(c);
  check_divisibility(c);
  check_embeddings(c);
  check_sample_size(c);
}

bool is_class_conditional(const UNet2DConfig& c) { return c.class_embed_type || c.num_class_embeds; }

int64_t size_multiple(const UNet2DConfig& c) { return int64_t{1} << (c.block_out_channels.size() - 1); }

std::string size_problem(const UNet2DConfig& c, int64_t height, int64_t width) {
  const int64_t multiple = size_multiple(c);
  if (height % multiple == 0 && width % multiple == 0) return "";
  return fmt::format("images are {} × {}, but this model halves them {} times: a multiple of {} is wanted", height,
                     width, c.block_out_channels.size() - 1, multiple);
}

}  // namespace ddpm::nn
