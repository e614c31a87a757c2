// Gives forward and backward the weights that other ranks keep.
//
// Stages 1 and 2: after each update, every rank sends its parts of the working weights to its shard group.
// Stage 3: a unit's weights exist only while it runs. Before its forward, and again before its backward (a hook on the
// gradient of its output), the unit is gathered from the shard group; the next one in that direction is fetched at the
// same time; afterwards its memory is given back. Storage is resized under the parameters: autograd's saved views come
// alive again with it, and no version counter moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "device/copy_stream.h"
#include "nn/unit_executor.h"
#include "parallel/parameter_arena.h"
#include "parallel/transfer_queue.h"

namespace ddpm::parallel {

class WeightGatherer final : public nn::UnitExecutor {
 public:
  /// `arena` and `shard`, the shard group by a communicator that only this object uses, outlive it, and so does
  /// `inner`. Collective.
  WeightGatherer(ParameterArena& arena, comm::Communicator& shard, bool overlap, nn::UnitExecutor* inner = nullptr);

  /// Call it after every change of the master weights. Collective.
  void weights_changed();
  /// Runs a unit with its weights gathered in stage 3, and by the inner executor alone in other stages.
  [[nodiscard]] nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                                  const nn::ForwardContext& context) override;
  /// Runs `forward`, the unit of a model that is not made of nn::Unit, with its weights gathered. Gradients must reach
  /// the unit through what it returns, and in no other way.
  [[nodiscard]] std::vector<at::Tensor> run(std::size_t unit, const std::function<std::vector<at::Tensor>()>& forward);
  /// Gathers all units at once, for a model whose forward is opaque. Only release_all() gives them back.
  void gather_all();
  /// Releases the unit after its backward: its weights are not needed until the next forward.
  void release(std::size_t unit);
  /// Releases all units that are still there. Called after each micro-batch.
  void release_all();
  /// Releases units whose gathering was recorded and has not run (device/device_graph.h).
  void discard();

  /// Seconds that callers waited for weights, since the last call.
  double take_exposed_seconds() { return queue_.take_exposed_seconds(); }
  /// From now on what is gathered is told to `trace`, which outlives this object; null ends that.
  void trace(base::Trace* trace) { queue_.trace(trace); }

 private:
  static constexpr int64_t kAbsent = -1;

  [[nodiscard]] bool by_unit() const { return arena_.sharding().cuts_weights(); }
  void gather_segments();
  /// Starts gathering, unless the unit is there or on its way.
  void fetch(std::size_t unit);
  /// Starts the all-gather of `sent`, which is first brought to the device of `incoming`.
  comm::Work gather(at::Tensor& sent, const at::Tensor& incoming);
  /// Blocks until the unit is there.
  void require(std::size_t unit);
  void before_forward(std::size_t unit);
  /// `carriers`: what brings gradients back into the unit.
  void after_forward(std::size_t unit, std::span<const at::Tensor> carriers);
  void before_backward(std::size_t unit);

  ParameterArena& arena_;
  comm::Communicator& shard_;
  std::vector<int64_t> transfer_;     // stage 3, per unit: the number of the transfer that gathers it, or kAbsent
  std::vector<at::Tensor> incoming_;  // memory for units that are on their way: reading the weights before is an error
  bool hold_ = false;
  device::CopyStream copies_;  // brings offloaded weights to the device
  TransferQueue queue_;
};

}  // namespace ddpm::parallel
