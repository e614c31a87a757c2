// [parallel] of the configuration: how ranks share the work of one model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "config/schema.h"

namespace ddpm::parallel {

struct ParallelConfig {
  int64_t zero_stage = 0;
  std::optional<int64_t> dp_shard_size = {};
  std::optional<int64_t> dp_replicate_size = {};
  std::string offload = "none";
  std::string activation_checkpointing = "none";
  double bucket_mib = 25.0;
  bool overlap = true;
  std::string gradient_compression = "none";
};
void describe(config::Section& section, ParallelConfig& c);

/// What is kept in host memory instead of where forward and backward run: see parallel/offload.h.
enum class Offload : uint8_t { none, optimizer, parameters };
Offload offload_of(const ParallelConfig& c);
/// Elements of an offloaded update that are under way at a time, and how many such chunks.
inline constexpr int64_t kOffloadChunk = int64_t{4} << 20;
inline constexpr std::size_t kOffloadChunks = 3;  // one that comes down, one that is updated, one that goes up

/// How many ranks share one copy of the model's state, and how many such copies there are.
struct DataParallelSizes {
  int64_t shard = 1;
  int64_t replicate = 1;
};
/// {1, ranks} in stage 0, which shares nothing; else what is not set follows from the other. For keys that
/// config::refuse_combinations has accepted.
DataParallelSizes data_parallel_sizes(const ParallelConfig& c, int64_t ranks);

}  // namespace ddpm::parallel
