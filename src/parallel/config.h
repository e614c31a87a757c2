// [parallel] of the configuration: how ranks share the work of one model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
/// `name`: parallel.offload.
Offload offload_of(std::string_view name);
/// Elements of an offloaded update that are under way at a time, and how many such chunks.
inline constexpr int64_t kOffloadChunk = int64_t{4} << 20;
inline constexpr std::size_t kOffloadChunks = 3;  // one that comes down, one that is updated, one that goes up

}  // namespace ddpm::parallel
