#include "nn/validate.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "config/resolve.h"
#include "nn/blocks/block_rules.h"
#include "nn/blocks/block_table.h"
#include "nn/sinusoids.h"

namespace ddpm::nn {
namespace {

using Names = std::vector<std::string>;

constexpr std::size_t kMaxLevels = 16;  // far beyond any model

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

void check_mid_block(const UNet2DConfig& c) {
  if (c.mid_block_scale_factor == 0.0) refuse("mid_block_scale_factor", 0, "a number above 0 or below it");
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

void check_sinusoids(const UNet2DConfig& c) {
  const int64_t width = c.block_out_channels.front();
  if (c.time_embedding_type != TimeEmbedding::positional || has_finite_sinusoids(width, c.freq_shift)) return;
  refuse("freq_shift", c.freq_shift,
         fmt::format("a number other than half of the first {} channels, and none so little above that frequencies "
                     "exceed float32",
                     width));
}

void check_embeddings(const UNet2DConfig& c) {
  check_sinusoids(c);
  if (c.time_embedding_type == TimeEmbedding::learned && !c.num_train_timesteps) {
    refuse("num_train_timesteps", "null", "the number of time steps, since time_embedding_type = \"learned\"");
  }
  if (c.class_embed_type && c.num_class_embeds) {
    refuse("num_class_embeds", *c.num_class_embeds,
           fmt::format("none, since class_embed_type = \"{}\" has no table", base::name_of(*c.class_embed_type)));
  }
}

void check_sample_size(const UNet2DConfig& c) {
  const auto axes = static_cast<std::size_t>(c.dimensions);
  if (c.sample_size.size() > 1 && c.sample_size.size() != axes) {
    refuse("sample_size", fmt::format("[{}]", fmt::join(c.sample_size, ", ")),
           fmt::format("one number, or {}height and width", axes == 2 ? "" : "depth, "));
  }
  const int64_t multiple = size_multiple(c);
  for (const int64_t size : c.sample_size) {
    if (size % multiple != 0) {
      refuse("sample_size", size,
             fmt::format("a positive multiple of {} ({} halvings)", multiple, c.block_out_channels.size() - 1));
    }
    if (size < least_size(c)) {
      refuse("sample_size", size, fmt::format("at least {} with {}", least_size(c), c.up_block_types.front()));
    }
  }
}

/// The first block whose filters are two-dimensional, and reflect at the image's border; "": there is none.
std::string filtering_block(const UNet2DConfig& c) {
  for (const auto* names : {&c.down_block_types, &c.up_block_types}) {
    for (const std::string& name : *names) {
      const Resampler resampler = block_type(name).resampler;
      if (resampler == Resampler::skip || resampler == Resampler::k) return name;
    }
  }
  return "";
}

void check_geometry(const UNet2DConfig& c) {
  if (c.padding.size() != 1 && c.padding.size() != static_cast<std::size_t>(c.dimensions)) {
    refuse("padding", fmt::format("{} values", c.padding.size()),
           fmt::format("one, or {}: one per axis", c.dimensions));
  }
  const std::string block = filtering_block(c);
  if (block.empty()) return;
  if (c.dimensions != 2) refuse("dimensions", c.dimensions, fmt::format("2 with {}, whose filters are flat", block));
  if (is_periodic(c)) {
    refuse("padding", fmt::format("[{}]", fmt::join(c.padding, ", ")),
           fmt::format("zeros with {}, whose filters know no other side", block));
  }
}

}  // namespace

void validate(const UNet2DConfig& c) {
  check_values(c);
  check_lengths(c);
  check_blocks(c);
  check_mid_block(c);
  check_embeddings(c);
  check_sample_size(c);
  check_geometry(c);
}

}  // namespace ddpm::nn
