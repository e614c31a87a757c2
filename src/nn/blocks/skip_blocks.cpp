// SkipDownBlock2D, AttnSkipDownBlock2D and their partners on the way up: residual blocks, and at the end one that
// resamples beside a picture.
#include "nn/blocks/unit_builder.h"
#include "nn/skip_units.h"

namespace ddpm::nn {

void build_skip_down_block(UnitBuilder& units, const BlockType& type, const BlockPlace& place) {
  for (int64_t i = 0; i < units.config().layers_per_block; ++i) {
    units.add_skip_residual(type, place, i, SkipUse::push, type.attention);
  }
  if (!place.resamples) return;
  units.add<SkipDownUnit>(place.prefix, units.skip_resampler(type, place));
  units.push_skip();
}

void build_skip_up_block(UnitBuilder& units, const BlockType& type, const BlockPlace& place) {
  const int64_t last = units.config().layers_per_block;
  for (int64_t i = 0; i <= last; ++i) {
    units.add_skip_residual(type, place, i, SkipUse::pop, type.attention && i == last);
  }
  if (place.resamples)
    units.add<SkipUpUnit>(place.prefix, units.skip_resampler(type, place), units.begins_prediction());
}

}  // namespace ddpm::nn
