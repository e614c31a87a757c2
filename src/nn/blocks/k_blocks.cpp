// KDownBlock2D and KUpBlock2D: residual blocks whose norms take the time embedding, and a fixed filter that resamples.
// Each block on the way up takes one skip, and leaves as many as it has layers; its last layer already has the channels
// of the next block.
#include "nn/blocks/unit_builder.h"

namespace ddpm::nn {

void build_k_down_block(UnitBuilder& units, const BlockType& type, const BlockPlace& place) {
  const int64_t layers = units.config().layers_per_block;
  for (int64_t i = 0; i < layers; ++i) {
    KResnetOptions o{.in = units.channels(), .out = place.channels};
    o.pushes_skip = true;
    if (place.resamples && i + 1 == layers) o.resampling_after = type.resampling;
    units.add_k_residual(place, i, o);
    units.push_skip();
  }
}

void build_k_up_block(UnitBuilder& units, const BlockType& type, const BlockPlace& place) {
  const int64_t layers = units.config().layers_per_block;
  for (int64_t i = 0; i < layers; ++i) {
    const bool last = i + 1 == layers;
    KResnetOptions o{.in = units.channels(), .out = last ? place.next_channels : place.channels};
    if (i == 0) {
      o.in += units.pop_skip();
      for (int64_t dropped = 1; dropped < layers; ++dropped) units.pop_skip();
      o.takes_skips = layers;
    }
    if (place.resamples && last) o.resampling_after = type.resampling;
    units.add_k_residual(place, i, o);
  }
}

}  // namespace ddpm::nn
