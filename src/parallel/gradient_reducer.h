// Sums gradients over micro-batches and ranks: two verbs, accumulate (by hooks, while backward runs) and finalize.
//
// A post-accumulate-grad hook on every parameter moves its fresh gradient into the arena's float32 gradient buffer and
// clears it. finalize() sums the buffer over the data-parallel ranks, once per optimizer step, in buckets of
// consecutive parameters that begin at the end of the model, where backward begins.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "parallel/config.h"
#include "parallel/parameter_arena.h"

namespace ddpm::parallel {

class GradientReducer {
 public:
  /// Installs the hooks; the arena, the parameters and the communicator must outlive the reducer.
  GradientReducer(ParameterArena& arena, comm::Communicator& data_parallel, const ParallelConfig& config);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Before the first micro-batch of an optimizer step: the next gradients replace what the buffer holds.
  void begin_step();
  /// After the last micro-batch: the buffer holds the sum over all ranks. Collective.
  void finalize();
  /// Seconds that the last finalize() waited for communication.
  [[nodiscard]] double exposed_seconds() const { return exposed_seconds_; }
  /// Element ranges of the buckets, in the order in which they are reduced.
  [[nodiscard]] const std::vector<layout::Range>& buckets() const { return buckets_; }

 private:
  void add(std::size_t index);

  ParameterArena& arena_;
  comm::Communicator& data_parallel_;
  std::vector<at::Tensor> gradients_;  // a view of the gradient buffer per parameter
  std::vector<uint8_t> fresh_;         // whether the parameter has had a gradient in this step
  std::vector<layout::Range> buckets_;
  double exposed_seconds_ = 0.0;

  class Hook;
};

/// Cuts `entries` into ranges of at least `bucket_bytes` of float32, from the last parameter to the first. Padding
/// belongs to the parameter before it, so the ranges cover the whole buffer.
std::vector<layout::Range> make_buckets(const std::vector<ParameterArena::Entry>& entries, int64_t size,
                                        int64_t bucket_bytes);

}  // namespace ddpm::parallel
