// Chooses what a first configuration says: the model, the batch, and the layout in the memory that there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "data/field.h"
#include "optim/mixed_precision.h"
#include "plan/starter.h"

namespace ddpm::plan {

/// A data set to train on.
struct StarterSet {
  std::string path;
  data::ImageFormat image;
  int64_t count = 0;
  int64_t classes = 0;  ///< 0: no labels
};

/// What is asked of the configuration.
struct StarterWishes {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  std::string machine = "cpu";                        ///< a name that find_machine() knows
  bool on_host = true;                                ///< ranks compute on the CPU
  std::optional<double> memory_gib = std::nullopt;    ///< memory of one rank; if unset, the machine's, if known
  std::optional<StarterSize> size = std::nullopt;     ///< if unset, medium, on the host small
  std::optional<int64_t> global_size = std::nullopt;  ///< if unset, near 128, on the host near 32
  int64_t steps = 10000;
  optim::MixedPrecision precision = optim::MixedPrecision::no;
  std::string run_directory = {};
};

/// Throws ConfigError for more ranks than images that a step may have.
void refuse_too_many_ranks(int64_t nodes, int64_t ranks_per_node);

/// The layout has the largest micro-batch that fits into the memory of a rank, with the lowest ZeRO stage that goes
/// with it on all nodes; a smaller micro-batch, of at least 8, where that needs a lower stage, and any that is clearly
/// faster. Blocks are computed again in the backward pass where nothing else suffices. `files` is where configurations
/// are resolved. Throws ConfigError where no layout fits, and where the batch does not divide.
Starter make_starter(const base::FileSystem& files, const StarterSet& set, const StarterWishes& wishes);

}  // namespace ddpm::plan
