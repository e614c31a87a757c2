// UNetMidBlock2D: two residual blocks at the lowest resolution, with attention between them unless add_attention is
// false. This file also has the builder of a middle without a block.
#include <fmt/format.h>

#include "nn/blocks/unit_builder.h"

namespace ddpm::nn {
namespace {

std::optional<AttentionOptions> middle_attention(const UnitBuilder& units, int64_t channels) {
  const UNet2DConfig& c = units.config();
  if (!c.add_attention) return std::nullopt;
  AttentionOptions attention = units.attention(channels);
  attention.output_scale = c.mid_block_scale_factor;
  // diffusers leaves the norm out with scale_shift, unless its groups are given.
  if (c.attn_norm_num_groups) {
    attention.norm->groups = *c.attn_norm_num_groups;
  } else if (c.resnet_time_scale_shift == TimeScaleShift::scale_shift) {
    attention.norm.reset();
  }
  return attention;
}

}  // namespace

void build_mid_block(UnitBuilder& units, const BlockType& /*type*/, const BlockPlace& place) {
  for (const int i : {0, 1}) {
    ResnetOptions resnet = units.resnet(place.channels, place.channels);
    resnet.output_scale = units.config().mid_block_scale_factor;
    units.add<ResnetUnit>(fmt::format("{}.resnets.{}", place.prefix, i), resnet, place.prefix + ".attentions.0",
                          i == 0 ? middle_attention(units, place.channels) : std::nullopt, SkipUse::none);
  }
}

void build_no_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) {}

}  // namespace ddpm::nn
