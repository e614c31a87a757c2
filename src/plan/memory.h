// Memory of one rank, by kind: what docs/plan.md derives.
//
// Ψ elements of trained parameters (padded as layout::ShardLayout does), S ranks per copy, E averages, w bytes of a
// working weight. Bytes of model state, after Rajbhandari et al., "ZeRO: memory optimizations toward training trillion
// parameter models" (2020), with float32 gradients and with averages:
//
//   stage   float32 (w = 4)               mixed precision (w = 2; float32 master weights are kept besides)
//   0       (4 + 4 + 8 + 4E) Ψ            (2 + 4 + 4 + 8 + 4E) Ψ
//   1       (4 + 4) Ψ + (8 + 4E) Ψ/S      (2 + 4) Ψ + (4 + 8 + 4E) Ψ/S
//   2       4 Ψ + (4 + 8 + 4E) Ψ/S        2 Ψ + (4 + 4 + 8 + 4E) Ψ/S
//   3       (4 + 4 + 8 + 4E) Ψ/S          (2 + 4 + 4 + 8 + 4E) Ψ/S
//
// parallel.offload = "optimizer" keeps master weights in float32 too, and puts them, moments and averages into host
// memory; "parameters" puts the Ψ/S working weights of stage 3 there as well.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "layout/shard_layout.h"
#include "plan/arrangement.h"

namespace ddpm::plan {

/// Bytes of a rank that computes on a GPU in the memory of that GPU's host, beside the program and its libraries.
struct HostMemory {
  int64_t batches = 0;   ///< pinned: micro-batches on their way to the GPU
  int64_t images = 0;    ///< what is read ahead or held, and grids
  int64_t state = 0;     ///< what parallel.offload puts there
  int64_t weights = 0;   ///< the part of it that is pinned
  int64_t chunks = 0;    ///< pinned: gradients that come down, and weights that go up, of an offloaded update
  int64_t snapshot = 0;  ///< the rank's share of a checkpoint, kept from the first one on
  int64_t pinned = 0;    ///< the part of all these that is pinned: of snapshots those of state on the GPU

  [[nodiscard]] int64_t total() const { return batches + images + state + chunks + snapshot; }
};

/// Bytes of one rank.
struct Memory {
  int64_t weights = 0;      ///< working weights, and constants
  int64_t master = 0;       ///< float32 copies, with mixed precision
  int64_t gradients = 0;    ///< float32
  int64_t moments = 0;      ///< AdamW's two
  int64_t averages = 0;     ///< moving averages, and with parallel.sync_every what outer steps keep
  int64_t buffers = 0;      ///< what communication needs, and the fixed sums of run.reproducible
  int64_t activations = 0;  ///< what backward needs of the micro-batches that are on their way at once
  int64_t workspace = 0;    ///< scratch memory of kernels and the allocator's slack
  int64_t images = 0;       ///< the micro-batch, its noise, prediction and target, grids, what is read ahead or held
  int64_t process = 0;      ///< program, libraries and their workspaces
  int64_t saved = 0;        ///< the snapshot, where training continues beside it

  int64_t host = 0;      ///< what parallel.offload puts beside a GPU, in the host's memory: part of those above
  int64_t snapshot = 0;  ///< copy of the rank's share of a checkpoint in host memory; beside a GPU not counted

  HostMemory beside = {};  ///< none where the host computes: its memory is counted above

  /// Weights to averages.
  [[nodiscard]] int64_t model_state() const { return weights + master + gradients + moments + averages; }
  /// Returns the peak of a step, without what lies in the memory of a GPU's host.
  [[nodiscard]] int64_t total() const {
    return model_state() - host + buffers + activations + workspace + images + process + saved;
  }
  /// Returns the memory while a checkpoint is written and training waits: there are no activations then.
  [[nodiscard]] int64_t saving() const { return model_state() - host + buffers + snapshot + process; }
  /// The parts of model_state() and total() with their names, in the order of the fields.
  [[nodiscard]] std::array<std::pair<std::string_view, int64_t>, 11> by_kind() const;
};

/// How the flat buffers are cut: by bucket in stages 0 to 2, by unit in stage 3.
layout::ShardLayout shard_layout(const ModelSizes& model, const Arrangement& arrangement);

/// `process_bytes`: what the process holds before it has a model.
Memory memory_of(const ModelSizes& model, const Arrangement& arrangement, int64_t process_bytes);

}  // namespace ddpm::plan
