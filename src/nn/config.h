// The configuration of a UNet2D: the keys of diffusers' UNet2DModel, under the same names, with the same defaults.
//
// Two keys whose default is not null can be null in a diffusers config.json. TOML has no null, so here they are
//   attention_head_dim = 0   (null: one head over all channels)
//   mid_block_type = ""      (null: no mid block)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/schema.h"
#include "nn/lora.h"
#include "nn/operations.h"

namespace ddpm::nn {

/// Features of the time step: sinusoids, random Fourier features of its logarithm, or a trained table.
enum class TimeEmbedding : uint8_t { positional, fourier, learned };
constexpr auto names_of(TimeEmbedding /*type*/) {
  return std::to_array<std::string_view>({"positional", "fourier", "learned"});
}

/// Class labels as another time step, or as ready-made embeddings.
enum class ClassEmbedding : uint8_t { timestep, identity };
constexpr auto names_of(ClassEmbedding /*type*/) { return std::to_array<std::string_view>({"timestep", "identity"}); }

/// How residual blocks take the time embedding: added before the second norm, or scaling and shifting after it.
enum class TimeScaleShift : uint8_t { standard, scale_shift };
constexpr auto names_of(TimeScaleShift /*type*/) { return std::to_array<std::string_view>({"default", "scale_shift"}); }

/// Activation of residual blocks; `swish` is another name for `silu`.
enum class ActivationName : uint8_t { silu, swish, mish, gelu, relu };
constexpr auto names_of(ActivationName /*type*/) {
  return std::to_array<std::string_view>({"silu", "swish", "mish", "gelu", "relu"});
}

/// What changes the resolution beside attention blocks: a convolution, or a residual block.
enum class ResamplerName : uint8_t { conv, resnet };
constexpr auto names_of(ResamplerName /*type*/) { return std::to_array<std::string_view>({"conv", "resnet"}); }

/// A value of UNet2DConfig::padding.
inline constexpr const char* kPeriodic = "periodic";

struct UNet2DConfig {
  /// Pixels: empty (any), one number (of all axes), or one per axis: height and width, of volumes depth first.
  std::vector<int64_t> sample_size;
  int64_t in_channels = 3;
  int64_t out_channels = 3;
  bool center_input_sample = false;
  TimeEmbedding time_embedding_type = TimeEmbedding::positional;
  std::optional<int64_t> time_embedding_dim;
  int64_t freq_shift = 0;
  bool flip_sin_to_cos = true;
  std::vector<std::string> down_block_types = {"DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"};
  std::string mid_block_type = "UNetMidBlock2D";
  std::vector<std::string> up_block_types = {"AttnUpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"};
  std::vector<int64_t> block_out_channels = {224, 448, 672, 896};
  int64_t layers_per_block = 2;
  double mid_block_scale_factor = 1.0;
  int64_t downsample_padding = 1;
  ResamplerName downsample_type = ResamplerName::conv;
  ResamplerName upsample_type = ResamplerName::conv;
  double dropout = 0.0;
  ActivationName act_fn = ActivationName::silu;
  int64_t attention_head_dim = 8;
  int64_t norm_num_groups = 32;  ///< 0: see blocks/block_groups.h
  std::optional<int64_t> attn_norm_num_groups;
  double norm_eps = 1e-5;
  TimeScaleShift resnet_time_scale_shift = TimeScaleShift::standard;
  bool add_attention = true;
  std::optional<ClassEmbedding> class_embed_type;
  std::optional<int64_t> num_class_embeds;
  std::optional<int64_t> num_train_timesteps;
  std::optional<int64_t> num_parameters;  ///< not a key of UNet2DModel, which takes none
  /// "zeros" or "periodic": one of all axes, or one per axis as above. Nor are this and the next keys of UNet2DModel.
  std::vector<std::string> padding = {"zeros"};
  int64_t dimensions = 2;  ///< 3: volumes
  LoraConfig lora;         ///< adapters; no part of a model's config.json
};

/// Declares every key but those of `lora`, with its documentation and range.
void describe(config::Section& section, UNet2DConfig& c);

/// Whether the model is told a class with each image.
bool is_class_conditional(const UNet2DConfig& c);

/// Whether something is periodic: beyond the border of such an axis lie the pixels of the other side.
bool is_periodic(const UNet2DConfig& c);
/// Whether axis `axis` of images is, the first of which is the depth of volumes or the height.
bool is_periodic_along(const UNet2DConfig& c, std::size_t axis);
/// Whether diffusers' UNet2DModel can compute the model.
bool fits_diffusers(const UNet2DConfig& c);

/// The sides of an image must be multiples of this: each downsampler halves them, each upsampler doubles them.
int64_t size_multiple(const UNet2DConfig& c);
/// The least side: the filter of K blocks mirrors one pixel of the smallest images that it doubles.
int64_t least_size(const UNet2DConfig& c);
/// sample_size; zeros where it is empty.
ImageSize image_size(const UNet2DConfig& c);
/// Why the model cannot take images of this size, as the end of a sentence; "" when it can.
std::string size_problem(const UNet2DConfig& c, const ImageSize& size);

}  // namespace ddpm::nn
