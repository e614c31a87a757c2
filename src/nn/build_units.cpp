// The walk over a UNet2DConfig that lays out its blocks as diffusers' UNet2DModel does.
#include <algorithm>

#include <fmt/format.h>

#include "nn/blocks/unit_builder.h"

namespace ddpm::nn {

std::vector<std::unique_ptr<Unit>> build_units(const UNet2DConfig& c) {
  UnitBuilder units(c);
  const std::size_t levels = c.block_out_channels.size();
  const auto add = [&units](const std::string& type_name, const BlockPlace& place) {
    const BlockType& type = block_type(type_name);
    type.build(units, type, place);
  };
  for (std::size_t level = 0; level < levels; ++level) {
    add(c.down_block_types[level], {.prefix = fmt::format("down_blocks.{}", level),
                                    .channels = c.block_out_channels[level],
                                    .resamples = level + 1 < levels});
  }
  add(c.mid_block_type, {.prefix = "mid_block", .channels = c.block_out_channels.back()});
  for (std::size_t i = 0; i < levels; ++i) {
    add(c.up_block_types[i], {.prefix = fmt::format("up_blocks.{}", i),
                              .channels = c.block_out_channels[levels - 1 - i],
                              .next_channels = c.block_out_channels[levels - 1 - std::min(i + 1, levels - 1)],
                              .resamples = i + 1 < levels});
  }
  return units.finish();
}

}  // namespace ddpm::nn
