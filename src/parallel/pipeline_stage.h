// A rank's stage of the pipeline (parallel.pipeline_size): the executor that runs its units alone.
//
// Every rank of a pipeline calls UNet2D::forward() with the same images. Before the stage's first unit the state comes
// from other ranks, after its last one it goes on to others, and units of other stages are passed over. With gradients,
// forward() returns the answer on the last stage and an undefined tensor on all others, and each call is followed by
// one of backward(), in the order of the calls; other calls may come in between. Without gradients the last stage sends
// its answer to all.
//
// What goes forward and what goes backward travels beside computation (parallel/stage_mail.h). Each way stages send in
// the order of micro-batches what the receiver takes in that order, and nothing waits for a stage after it, or before
// it: whatever the order of forward and backward, no rank waits for one that waits for it.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "nn/unit_executor.h"
#include "parallel/stage_mail.h"
#include "parallel/unit_flow.h"

namespace ddpm::parallel {

class PipelineStage final : public nn::UnitExecutor {
 public:
  /// `stages`: the units of each. `ranks`: those of the pipeline in the order of their stages. `partition` is of the
  /// meta device: what the model's forward passes have besides. Both, and `inner`, outlive this object. Collective.
  PipelineStage(const nn::UNet2DConfig& model, at::ScalarType compute_dtype, at::Device device,
                const nn::Partition& partition, std::vector<layout::Range> stages, comm::Communicator& ranks,
                nn::UnitExecutor& inner);

  [[nodiscard]] nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                                  const nn::ForwardContext& context) override;
  /// Says that so many forward passes with gradients follow, each with its backward, of images of the same sizes and
  /// with no other call in between: what one of them is given is received while the one before it computes.
  void expect(int64_t passes);
  /// Whether stages may be at different passes, in the steps that follow. Not on a device in the first step, nor in one
  /// after a validation: what takes memory there, or loads a kernel, may wait for all messages that are under way.
  [[nodiscard]] bool may_run_ahead() const { return looks_ahead_; }
  /// Runs backward of the oldest forward pass that waits for it. `objective`: what is to be differentiated; undefined
  /// but on the last stage.
  void backward(const at::Tensor& objective);
  /// Waits until all that was sent is received.
  void finish();

  [[nodiscard]] bool is_last() const { return stage_ + 1 == static_cast<int64_t>(stages_.size()); }
  /// Seconds that this stage waited for others, since the last call.
  [[nodiscard]] double take_exposed_seconds();
  /// From now on what travels is told to `trace`, which outlives this object; null ends that.
  void trace(base::Trace* trace);

 private:
  /// What comes from other stages, for a forward pass or for backward.
  struct Arrival {
    const StageFlow* flow = nullptr;
    int64_t number = 0;  ///< to wait for
    std::vector<at::Tensor> tensors{};
  };
  /// A forward pass that waits for its backward.
  struct Pass {
    std::vector<at::Tensor> received{};  ///< leaves, as StageFlow::in says
    std::vector<at::Tensor> given{};     ///< as StageFlow::out says
    const StageFlow* flow = nullptr;
  };

  [[nodiscard]] const StageFlow& flow_of(const at::Tensor& images);
  [[nodiscard]] nn::UnitState take(nn::UnitState state, Pass& pass);
  void give(nn::UnitState& state, Pass& pass);
  [[nodiscard]] at::Tensor shared_answer(const at::Tensor& answer, const at::Tensor& images);
  /// Begins to receive the inputs of a forward pass.
  [[nodiscard]] Arrival inputs(const StageFlow& flow);
  /// Begins to receive the gradients of what it gave.
  [[nodiscard]] Arrival gradients(const StageFlow& flow);
  [[nodiscard]] at::Tensor memory_for(const StageValue& value) const;

  nn::UNet2D shapes_;  // on the meta device
  std::vector<layout::Range> stages_;
  int64_t stage_;
  layout::Range units_;
  at::Device device_;
  bool looks_ahead_;       ///< what a pass needs is awaited while the one before is computed
  bool expected_ = false;  ///< passes of a step, since finish()
  const nn::Partition& partition_;
  StageMail forward_;
  StageMail backward_;
  std::map<std::vector<int64_t>, std::vector<StageFlow>> flows_;  // by the sizes of the images
  at::Tensor images_;                                             // input of the forward pass that runs
  Pass running_;
  std::deque<Pass> passes_;
  // Passes that expect() said and whose arrivals are not taken yet, and the next arrival.
  int64_t forwards_left_ = 0;
  int64_t backwards_left_ = 0;
  std::optional<Arrival> next_forward_;
  std::optional<Arrival> next_backward_;
};

}  // namespace ddpm::parallel
