// [parallel] of the configuration: how ranks share the work of one model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/schema.h"

namespace ddpm::parallel {

struct ParallelConfig {
  int64_t zero_stage = 0;
  std::optional<int64_t> dp_shard_size = {};
  std::optional<int64_t> dp_replicate_size = {};
  std::string activation_checkpointing = "none";
  double bucket_mib = 25.0;
  bool overlap = true;
  std::string gradient_compression = "none";
};
void describe(config::Section& section, ParallelConfig& c);

/// How many ranks share one copy of the model's state, and how many such copies there are.
struct DataParallelSizes {
  int64_t shard = 1;
  int64_t replicate = 1;
};
/// {1, ranks} in stage 0, which shares nothing. Else both from the keys and the number of data-parallel ranks: what is
/// not set follows from the other. Throws ConfigError with all numbers when their product is not the number of ranks,
/// or when they are set for stage 0.
DataParallelSizes data_parallel_sizes(const ParallelConfig& c, int64_t ranks);

}  // namespace ddpm::parallel
