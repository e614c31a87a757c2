// The `checkpoint` section of a configuration.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema.h"

namespace ddpm::checkpoint {

/// Checkpoints of a run that stay whatever keep_latest says: before one that is damaged there is an older one.
inline constexpr int64_t kLeastKept = 2;

struct CheckpointConfig {
  int64_t every_steps = 500;
  int64_t keep_latest = 3;
  int64_t keep_every = 0;
  bool async = true;
  std::string resume = "auto";  ///< auto, never, or a checkpoint folder
};

void describe(config::Section& section, CheckpointConfig& c);
/// Throws base::ConfigError for an empty `resume`, which a shell passes for a variable that is not set.
void validate(const CheckpointConfig& c);

}  // namespace ddpm::checkpoint
