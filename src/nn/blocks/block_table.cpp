#include "nn/blocks/block_table.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::nn {

// The builders are defined in the files beside this one.
BlockBuilder build_down_block, build_k_down_block, build_k_up_block, build_mid_block, build_no_block,
    build_skip_down_block, build_skip_up_block, build_up_block;

namespace {

constexpr std::array kBlockTypes = {
    BlockType{"DownBlock2D", Resampling::down, false, Resampler::convolution, build_down_block},
    BlockType{"ResnetDownsampleBlock2D", Resampling::down, false, Resampler::residual, build_down_block},
    BlockType{"AttnDownBlock2D", Resampling::down, true, Resampler::configured, build_down_block},
    BlockType{"SkipDownBlock2D", Resampling::down, false, Resampler::skip, build_skip_down_block},
    BlockType{"AttnSkipDownBlock2D", Resampling::down, true, Resampler::skip, build_skip_down_block},
    BlockType{"KDownBlock2D", Resampling::down, false, Resampler::k, build_k_down_block},
    BlockType{"UNetMidBlock2D", Resampling::none, true, Resampler::convolution, build_mid_block},
    BlockType{"", Resampling::none, false, Resampler::convolution, build_no_block},
    BlockType{"UpBlock2D", Resampling::up, false, Resampler::convolution, build_up_block},
    BlockType{"ResnetUpsampleBlock2D", Resampling::up, false, Resampler::residual, build_up_block},
    BlockType{"AttnUpBlock2D", Resampling::up, true, Resampler::configured, build_up_block},
    BlockType{"SkipUpBlock2D", Resampling::up, false, Resampler::skip, build_skip_up_block},
    BlockType{"AttnSkipUpBlock2D", Resampling::up, true, Resampler::skip, build_skip_up_block},
    BlockType{"KUpBlock2D", Resampling::up, false, Resampler::k, build_k_up_block},
};

}  // namespace

std::vector<std::string> block_names(Resampling way) {
  std::vector<std::string> names;
  for (const BlockType& type : kBlockTypes) {
    if (type.resampling == way) names.emplace_back(type.name);
  }
  return names;
}

const BlockType& block_type(std::string_view name) {
  const auto* const found = std::ranges::find(kBlockTypes, name, &BlockType::name);
  if (found != kBlockTypes.end()) return *found;
  std::vector<std::string> names;
  names.reserve(kBlockTypes.size());
  for (const BlockType& type : kBlockTypes) names.push_back(fmt::format("\"{}\"", type.name));
  throw base::ConfigError("block type \"{}\": wanted one of {}", name, fmt::join(names, ", "));
}

}  // namespace ddpm::nn
