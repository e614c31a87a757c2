// The memory of a GPU's host that parallel.offload takes. No LibTorch here: plans count it, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/pinned_memory.h"
#include "parallel/config.h"

namespace ddpm::parallel {

/// What a rank keeps of an offloaded state.
struct OffloadedState {
  Offload offload = Offload::none;
  int64_t elements = 0;      ///< of its share
  int64_t longest = 0;       ///< elements of the longest run of it without gaps
  int64_t weight_bytes = 4;  ///< of a working weight

  [[nodiscard]] bool mixed_precision() const { return weight_bytes != 4; }
  /// Whether the host rounds weights before they go up: others go up straight from the master weights, or stay.
  [[nodiscard]] bool rounds() const { return mixed_precision() && offload == Offload::optimizer; }
};

/// Pinned: the chunks of OffloadedUpdate, gradients that come down and rounded weights that go up.
inline int64_t offload_chunk_bytes(const OffloadedState& state, int64_t chunk = kOffloadChunk) {
  if (state.offload == Offload::none) return 0;
  const int64_t longest = std::min(chunk, state.longest);
  const int64_t weights = state.rounds() ? device::pinned_bytes(state.weight_bytes * longest) : 0;
  return static_cast<int64_t>(kOffloadChunks) *
         (device::pinned_bytes(static_cast<int64_t>(sizeof(float)) * longest) + weights);
}

/// Pinned: the weights of ParameterArena that go up to the GPU. Without a copy of their own for the update, working
/// weights of float32 are the master weights.
inline int64_t offload_weight_bytes(const OffloadedState& state) {
  if (state.offload == Offload::none) return 0;
  const bool parameters = state.offload == Offload::parameters;
  const bool copy = state.mixed_precision() || !parameters;
  const int64_t working = parameters ? device::pinned_bytes(state.weight_bytes * state.elements) : 0;
  return working + (copy ? device::pinned_bytes(static_cast<int64_t>(sizeof(float)) * state.elements) : 0);
}

}  // namespace ddpm::parallel
