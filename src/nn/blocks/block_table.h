// The block types of UNet2D by diffusers' names: the only place that knows what a name stands for.
//
// A block type is one row of the table (block_table.cpp) and a builder, in a file beside it. Code
// that allows, refuses or builds blocks asks the table. docs/architecture.md says how one is added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/operations.h"

namespace ddpm::nn {

class UnitBuilder;
struct BlockType;

/// Where a block stands in the UNet.
struct BlockPlace {
  std::string prefix;         ///< start of its parameters' names: "down_blocks.0"
  int64_t channels = 0;       ///< channels of its activations
  int64_t next_channels = 0;  ///< channels of the next block's activations; its own in the last block
  bool resamples = false;     ///< whether it ends with a resampler; the last block of each way does not
};

/// Appends a block's units: each way down pushes skips, each way up takes them.
using BlockBuilder = void(UnitBuilder& units, const BlockType& type, const BlockPlace& place);

/// How a block's last layer resamples.
enum class Resampler : uint8_t {
  convolution,
  configured,  ///< as downsample_type or upsample_type says
  residual,    ///< in a residual block
  skip,        ///< in a residual block, with a picture beside it: see nn/skip_units.h
  k,           ///< by a fixed filter: see nn/k_units.h
};

struct BlockType {
  std::string_view name;                     ///< as diffusers spells it; "" for a middle without a block
  Resampling resampling = Resampling::none;  ///< its way: down, up, or none in the middle
  bool attention = false;                    ///< attention follows its residual blocks
  Resampler resampler = Resampler::convolution;
  BlockBuilder* build = nullptr;
};

/// The names of one way's block types, in the table's order.
std::vector<std::string> block_names(Resampling way);

/// The row of a name. For a name that is not in the table, throws base::ConfigError with those that are.
const BlockType& block_type(std::string_view name);

}  // namespace ddpm::nn
