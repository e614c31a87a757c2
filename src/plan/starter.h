// A first configuration for a data set: a model that fits its images, a batch that fits the ranks, and the layout that
// the plan recommends, as commented TOML.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optim/mixed_precision.h"
#include "plan/arrangement.h"

namespace ddpm::plan {

/// What the starter must know of a data set.
struct StarterImages {
  std::string path = {};
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int64_t classes = 0;   ///< 0: no labels
  bool float32 = false;  ///< stored as float32, not as 8-bit numbers
  int64_t depth = 0;     ///< layers of a volume; 0 for flat images
};

/// small: 32 channels, one layer per block; medium: 128 channels, on 32 pixels Ho, Jain, Abbeel's CIFAR-10 model but
/// for its last level.
enum class StarterSize : uint8_t { small, medium };
constexpr auto names_of(StarterSize /*size*/) { return std::to_array<std::string_view>({"small", "medium"}); }

/// Keys of [model].
struct StarterModel {
  std::vector<int64_t> block_out_channels = {};
  std::vector<std::string> down_block_types = {};
  std::vector<std::string> up_block_types = {};
  int64_t layers_per_block = 2;
  int64_t norm_num_groups = 32;
};

/// Halves images of these `sides` down to about 8 pixels where their size allows it; attention from 16 pixels down.
StarterModel starter_model(StarterSize size, const std::vector<int64_t>& sides);

/// A multiple of `ranks` near `aim`, a power of two per rank, and no more than `images` where that can be.
int64_t starter_global_size(int64_t ranks, int64_t images, int64_t aim);

struct Starter {
  StarterImages images = {};
  StarterModel model = {};
  Arrangement arrangement = {};
  optim::MixedPrecision precision = optim::MixedPrecision::no;
  bool recomputes = false;  ///< activation_checkpointing = "blocks"
  std::string run_directory = {};
  int64_t steps = 10000;
};

/// The configuration file.
std::string toml_of(const Starter& starter);

}  // namespace ddpm::plan
