// How many groups the norms of a block have: pure arithmetic, which builders and the refusals of a configuration share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nn/blocks/block_table.h"

namespace ddpm::nn {

constexpr int64_t kSkipAttentionGroups = 32;
constexpr int64_t kChannelsPerKGroup = 32;

/// Groups of the middle block's norms and of the last one, given those that the configuration names: 0, null in
/// diffusers, leaves them to the channels. No other block of this kind runs with 0.
constexpr int64_t plain_norm_groups(int64_t channels, int64_t configured) {
  return configured > 0 ? configured : std::min<int64_t>(channels / 4, 32);
}

/// Groups of a residual block's norm over `channels`, given those that the configuration names.
constexpr int64_t norm_groups(Resampler resampler, int64_t channels, int64_t configured) {
  switch (resampler) {
    case Resampler::skip:
      return plain_norm_groups(channels, 0);
    case Resampler::k:
      return channels / kChannelsPerKGroup;
    case Resampler::convolution:
    case Resampler::configured:
    case Resampler::residual:
      break;
  }
  return configured;
}

/// Groups of the first norm of a residual block on the way up, whose input joins `from_below` and `skip` channels.
constexpr int64_t joint_norm_groups(const BlockType& type, int64_t from_below, int64_t skip, int64_t configured) {
  // diffusers' AttnSkipUpBlock2D divides the channels of the skip alone.
  if (type.resampler == Resampler::skip && type.attention) return std::min<int64_t>(from_below + skip / 4, 32);
  return norm_groups(type.resampler, from_below + skip, configured);
}

}  // namespace ddpm::nn
