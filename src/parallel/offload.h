// State in host memory while a GPU computes: what the optimizer alone needs moves there, and is updated there.
//
// After "ZeRO-Offload: democratizing billion-scale model training" (Ren et al. 2021). By parallel.offload, with w bytes
// of a working weight and Ψ/S elements that a rank keeps:
//
//   optimizer    float32 master weights, moments and averages are in host memory. Per step, 4 Ψ/S bytes of gradients
//                come down and w Ψ/S bytes of weights go up.
//   parameters   also the rank's part of the working weights (stage 3): it goes up each time a unit is gathered.
//
// On a run without a GPU both memories are the host's, and the code copies from buffer to buffer. The weights have the
// same bits as without offload. That saves no memory and serves tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "device/copy_stream.h"
#include "layout/range.h"
#include "parallel/parameter_arena.h"

namespace ddpm::parallel {

/// The update of an arena whose state is in host memory: gradients come down in chunks, and each chunk's new weights go
/// up while the next one is computed.
class OffloadedUpdate {
 public:
  /// Serves an arena with an offload, which outlives it. `chunk`: the most elements that are updated at a time.
  explicit OffloadedUpdate(ParameterArena& arena, int64_t chunk = kOffloadChunk);

  /// Lets the first chunks of the gradient come down: after the reduction, before the norm is known. An update that is
  /// then skipped needs nothing more.
  void start();

  /// Elements `range` of piece `piece` (ParameterArena::pieces) and their gradient in host memory.
  using UpdateChunk = std::function<void(std::size_t piece, layout::Range range, std::span<const float> gradient)>;
  /// Calls `update` for every chunk, which changes arena.master() there, and brings the working weights up to date.
  /// After start().
  void run(const UpdateChunk& update);

 private:
  struct Chunk {
    std::size_t piece;
    layout::Range range;
  };
  struct ChunkInFlight {
    at::Tensor gradient;
    at::Tensor weights;  // in the compute dtype
    device::CopyStream::Mark fetched;
    device::CopyStream::Mark sent;
  };

  void fetch(std::size_t chunk);
  void send(std::size_t chunk);
  ChunkInFlight& slot_of(std::size_t chunk) { return slots_[chunk % kOffloadChunks]; }

  ParameterArena& arena_;
  StateBuffer working_;
  std::vector<Chunk> chunks_;
  std::array<ChunkInFlight, kOffloadChunks> slots_;
  device::CopyStream down_;
  device::CopyStream up_;
};

}  // namespace ddpm::parallel
