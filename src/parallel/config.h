// [parallel] of the configuration: how ranks share the work of one model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "config/schema.h"
#include "layout/parallelism.h"

namespace ddpm::parallel {

using layout::GradientCompression;
using layout::Offload;

/// What is computed again in backward: see parallel/activation_checkpointing.h.
enum class ActivationCheckpointing : uint8_t { none, blocks, attention };
constexpr auto names_of(ActivationCheckpointing /*type*/) {
  return std::to_array<std::string_view>({"none", "blocks", "attention"});
}

/// The step of SGD with Nesterov's momentum that brings islands together: see engine/outer_step.h.
struct OuterConfig {
  double learning_rate = 0.7;
  double momentum = 0.5;

  friend bool operator==(const OuterConfig&, const OuterConfig&) = default;
};

struct ParallelConfig {
  int64_t zero_stage = 0;
  std::optional<int64_t> dp_shard_size = {};
  std::optional<int64_t> dp_replicate_size = {};
  std::vector<int64_t> spatial_size = {1};
  int64_t tensor_size = 1;
  int64_t pipeline_size = 1;
  std::vector<int64_t> stage_units = {};
  int64_t sync_every = 0;
  OuterConfig outer = {};
  Offload offload = Offload::none;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::none;
  double bucket_mib = 25.0;
  bool overlap = true;
  GradientCompression gradient_compression = GradientCompression::none;
  bool share_gpus = false;
};
void describe(config::Section& section, ParallelConfig& c);

/// Elements of an offloaded update that are under way at a time, and how many such chunks.
inline constexpr int64_t kOffloadChunk = int64_t{4} << 20;
inline constexpr std::size_t kOffloadChunks = 3;  // one that comes down, one that is updated, one that goes up

/// Bytes of gradients after which those that wait on a GPU, to be moved by one launch, are moved. Large gradients gain
/// nothing from waiting.
inline constexpr std::size_t kWaitingGradientBytes = std::size_t{16} << 20;

}  // namespace ddpm::parallel
