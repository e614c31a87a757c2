// Sums gradients over micro-batches and ranks while backward runs.
//
// A post-accumulate-grad hook on every parameter moves its fresh gradient into float32 memory and clears it; on a GPU,
// those of many parameters by one launch, before any of them is sent. A segment of the arena's flat buffer is sent off
// as soon as all its gradients are there, but always in the order from the last segment to the first: so ranks need no
// message to agree on it, whatever order their backward passes take.
//
//   stage 0     the whole gradient is summed over the ranks that share it, once per optimizer step
//   stage 1     the same, but a rank receives its parts only (reduce-scatter in the shard group, then all-reduce among
//               the replicas of a part)
//   stages 2, 3 every micro-batch's gradient is reduce-scattered and added to the rank's parts; what is not ours is
//               dropped at once
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/trace.h"
#include "parallel/config.h"
#include "parallel/gradient_hooks.h"
#include "parallel/groups.h"
#include "parallel/parameter_arena.h"
#include "parallel/transfer_queue.h"

namespace ddpm::parallel {

/// Per optimizer step: begin_step, then for each micro-batch begin_micro_batch, backward, end_micro_batch; then
/// finalize.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  virtual void begin_step() = 0;
  virtual void begin_micro_batch(bool last) = 0;
  virtual void end_micro_batch() = 0;
  /// Discards the step: it is called instead of further micro-batches and finalize(), on all ranks after one
  /// micro-batch. Waits for what is on its way.
  virtual void abandon() = 0;
  /// Discards work that was recorded and has not run (device/device_graph.h).
  virtual void discard() = 0;
  /// Completes the sums: the arena's gradient pieces hold the sum over the ranks of GradientGroups. Collective, as are
  /// the hooks that backward calls.
  virtual void finalize() = 0;
  /// Seconds that the last step waited for communication.
  [[nodiscard]] virtual double exposed_seconds() const = 0;
  /// From now on what travels beside backward is told to `trace`, which outlives this object; null ends that.
  virtual void trace(base::Trace* /*trace*/) {}
};

struct ReducerOptions {
  bool overlap = true;  ///< gradients travel while backward runs
  GradientCompression compression = GradientCompression::none;
};

class OverlappedReducer final : public GradientReducer {
 public:
  /// Installs the hooks. `arena` and `groups` must outlive the reducer; nobody else uses the groups' communicators
  /// between begin_micro_batch and finalize. Collective.
  OverlappedReducer(ParameterArena& arena, const GradientGroups& groups, const ReducerOptions& options);

  void begin_step() override;
  void begin_micro_batch(bool last) override;
  void end_micro_batch() override;
  void abandon() override { queue_.drain(); }
  void discard() override;
  void finalize() override;
  [[nodiscard]] double exposed_seconds() const override { return exposed_seconds_; }
  void trace(base::Trace* trace) override { queue_.trace(trace); }

  /// Called when all gradients of a segment have arrived in a micro-batch: stage 3 frees the unit's weights then.
  void on_segment_complete(std::function<void(std::size_t segment)> callback) {
    segment_complete_ = std::move(callback);
  }

 private:
  void add(std::size_t index);
  void add_to_whole(std::size_t index, const at::Tensor& gradient);
  void add_to_staging(std::size_t index, const at::Tensor& gradient);
  /// Sees to it that `from` gets into the float32 run `into`: at once on a CPU, and on a GPU with others.
  void move(const at::Tensor& into, const at::Tensor& from, bool add);
  void move_waiting();
  void forget_waiting();
  void arrived(std::size_t index);
  void launch_ready();
  void launch(std::size_t segment);
  [[nodiscard]] bool sends_now() const { return arena_.sharding().cuts_gradients() || last_; }

  ParameterArena& arena_;
  const GradientGroups& groups_;
  std::optional<at::ScalarType> compressed_;
  std::vector<layout::Range> segments_of_;  // per entry: the segments that it touches
  std::vector<int> entries_in_;             // per segment
  std::vector<int> missing_;                // per segment: entries without a gradient in this micro-batch
  std::vector<uint8_t> fresh_;              // per entry: whether it has had a gradient in this step
  std::vector<uint8_t> started_;            // per segment: whether its part has had a sum in this step
  std::vector<at::Tensor> into_;            // runs that wait for those of from_
  std::vector<at::Tensor> from_;
  std::size_t waiting_bytes_ = 0;  // size of what from_ holds
  bool adds_ = false;              // whether the waiting runs are to be added
  bool waits_;
  std::vector<at::Tensor> staging_;  // stages 2 and 3: per segment, while its gradients arrive
  std::function<void(std::size_t)> segment_complete_;
  std::size_t next_ = 0;  // segments from this one on have been sent off
  bool last_ = false;
  double exposed_seconds_ = 0.0;
  TransferQueue queue_;
  GradientHooks hooks_;  // last: removed first
};

}  // namespace ddpm::parallel
