// The keys of [parallel].
#pragma once

#include <string>

#include "config/schema.h"

namespace ddpm::parallel {

struct ParallelConfig {
  std::string activation_checkpointing = "none";
  double bucket_mib = 25.0;
};

void describe(config::Section& section, ParallelConfig& c);

}  // namespace ddpm::parallel
