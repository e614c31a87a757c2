// DownBlock2D and AttnDownBlock2D: residual blocks, each of which leaves a skip, and a downsampler, which leaves
// another.
#include "nn/blocks/unit_builder.h"

namespace ddpm::nn {

void build_down_block(UnitBuilder& units, const BlockType& type, const BlockPlace& place) {
  const UNet2DConfig& c = units.config();
  for (int64_t i = 0; i < c.layers_per_block; ++i) units.add_residual(type, place, i, SkipUse::push);
  if (place.resamples) units.add_resampler(type, place.prefix + ".downsamplers.0", c.downsample_type);
}

}  // namespace ddpm::nn
