// UpBlock2D and AttnUpBlock2D: residual blocks, each of which takes a skip, and an upsampler.
#include "nn/blocks/unit_builder.h"

namespace ddpm::nn {

void build_up_block(UnitBuilder& units, const BlockType& type, const BlockPlace& place) {
  const UNet2DConfig& c = units.config();
  for (int64_t i = 0; i <= c.layers_per_block; ++i) units.add_residual(type, place, i, SkipUse::pop);
  if (place.resamples) units.add_resampler(type, place.prefix + ".upsamplers.0", c.upsample_type);
}

}  // namespace ddpm::nn
