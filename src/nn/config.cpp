#include "nn/config.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nn/blocks/block_table.h"

namespace ddpm::nn {
namespace {

const std::vector<std::string> kPaddings = {"zeros", kPeriodic};

// Far beyond any model, and small enough that no product of two of them overflows.
constexpr int64_t kMaxChannels = 65536;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxTimesteps = 1'000'000;
constexpr int64_t kMaxClasses = 100'000'000;
constexpr int64_t kMaxImageSize = 65536;

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
      .key("num_parameters", c.num_parameters,
           "Numbers that are given with each image, for which diffusers has no model; absent: that of the data",
           {.min = 1, .max = kMaxChannels})
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
      .key("block_out_channels", c.block_out_channels, "Channels of each level, which the groups of its norms divide",
           {.min = 1, .max = kMaxChannels})
      .key("layers_per_block", c.layers_per_block, "Residual blocks per level on the way down; one more going up",
           {.min = 1, .max = kMaxLayers})
      .key("mid_block_scale_factor", c.mid_block_scale_factor,
           "Divides the outputs of the mid block's layers: any number but 0")
      .key("downsample_padding", c.downsample_padding,
           "Zeros around the image in strided convolutions; 0: below and to the right only", {.min = 0, .max = 1})
      .key("padding", c.padding,
           "What lies beyond the image's border: zeros, or periodic: its other side, which no model of diffusers "
           "knows; one of all axes, or one per axis as in sample_size",
           {.choices = kPaddings})
      .key("downsample_type", c.downsample_type, "Downsampler of AttnDownBlock2D")
      .key("upsample_type", c.upsample_type, "Upsampler of AttnUpBlock2D");
}

}  // namespace

void describe(config::Section& section, UNet2DConfig& c) {
  section
      .key("sample_size", c.sample_size,
           "Image size in pixels: one number, or height and width, of volumes depth first; empty: that of the data",
           {.min = 1, .max = kMaxImageSize})
      .key("dimensions", c.dimensions, "2: images; 3: volumes, with convolutions that diffusers has no model for",
           {.min = 2, .max = 3})
      .key("in_channels", c.in_channels, "Channels of the noisy image and of all that stands beside it",
           {.min = 1, .max = kMaxChannels})
      .key("out_channels", c.out_channels, "Channels of the prediction", {.min = 1, .max = kMaxChannels})
      .key("center_input_sample", c.center_input_sample, "Map the input x to 2 x - 1 first");
  describe_embeddings(section, c);
  describe_blocks(section, c);
  section
      .key("dropout", c.dropout, "Probability of dropping an activation in residual blocks",
           {.min = 0, .max = 1, .below_max = true})
      .key("act_fn", c.act_fn, "Activation of residual blocks")
      .key("attention_head_dim", c.attention_head_dim,
           "Channels per attention head, of which there are as many as fit; 0 (null in diffusers): one head "
           "over all channels",
           {.min = 0, .max = kMaxChannels})
      .key("norm_num_groups", c.norm_num_groups,
           "Groups of each group normalisation; 0 (null in diffusers): of skip and K blocks alone, which choose their "
           "own, a group for 4 channels and at most 32 in the middle and at the end",
           {.min = 0, .max = kMaxChannels})
      .key("attn_norm_num_groups", c.attn_norm_num_groups, "Groups of the mid block's attention normalisation",
           {.min = 1, .max = kMaxChannels, .default_text = "norm_num_groups; with scale_shift no normalisation"})
      .key("norm_eps", c.norm_eps, "Added to the variance in group normalisation", {.min = 0})
      .key(
          "resnet_time_scale_shift", c.resnet_time_scale_shift,
          "How residual blocks take the time embedding: added before the second norm, or scaling and shifting after it")
      .key("add_attention", c.add_attention, "Attention in the mid block");
}

bool is_periodic(const UNet2DConfig& c) { return std::ranges::count(c.padding, kPeriodic) > 0; }

bool is_periodic_along(const UNet2DConfig& c, std::size_t axis) {
  return c.padding.at(c.padding.size() == 1 ? 0 : axis) == kPeriodic;
}

bool fits_diffusers(const UNet2DConfig& c) { return !c.num_parameters && !is_periodic(c) && c.dimensions == 2; }

bool is_class_conditional(const UNet2DConfig& c) { return c.class_embed_type || c.num_class_embeds; }

int64_t size_multiple(const UNet2DConfig& c) { return int64_t{1} << (c.block_out_channels.size() - 1); }

int64_t least_size(const UNet2DConfig& c) {
  const bool mirrors =
      c.block_out_channels.size() > 1 && block_type(c.up_block_types.front()).resampler == Resampler::k;
  return size_multiple(c) * (mirrors ? 2 : 1);
}

ImageSize image_size(const UNet2DConfig& c) {
  if (c.sample_size.empty()) return {};
  return {.height = c.sample_size.size() == 1 ? c.sample_size.front() : c.sample_size.rbegin()[1],
          .width = c.sample_size.back(),
          .depth = c.dimensions == 2 ? 0 : c.sample_size.front()};
}

std::string size_problem(const UNet2DConfig& c, const ImageSize& size) {
  const int64_t multiple = size_multiple(c);
  if (size.height % multiple == 0 && size.width % multiple == 0 && size.depth % multiple == 0) {
    const int64_t least = std::min(size.height, size.width);
    if (least == 0 || least >= least_size(c)) return "";
    return fmt::format(
        "images are {} × {}, of which {} leaves less than the 2 pixels that its filter mirrors: sides of at least {} "
        "are wanted",
        size.height, size.width, c.up_block_types.front(), least_size(c));
  }
  return fmt::format("images are {}, but this model halves them {} times: a multiple of {} is wanted",
                     fmt::join(size.sides(), " × "), c.block_out_channels.size() - 1, multiple);
}

}  // namespace ddpm::nn
