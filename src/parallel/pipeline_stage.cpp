#include "parallel/pipeline_stage.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/check.h"
#include "comm/message_tags.h"

namespace ddpm::parallel {
namespace {

/// Activations travel as they lie in memory, channels last.
at::MemoryFormat format_of(std::size_t dimensions) {
  return dimensions == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

at::Tensor as_sent(const at::Tensor& value) {
  return value.detach().contiguous(format_of(static_cast<std::size_t>(value.dim())));
}

nn::UNet2D shapes_of(const nn::UNet2DConfig& model, at::ScalarType compute_dtype) {
  nn::UNet2D unet(model);
  bind_on_meta(unet, compute_dtype);
  return unet;
}

}  // namespace

PipelineStage::PipelineStage(const nn::UNet2DConfig& model, at::ScalarType compute_dtype, at::Device device,
                             const nn::Partition& partition, std::vector<layout::Range> stages,
                             comm::Communicator& ranks, nn::UnitExecutor& inner)
    : UnitExecutor(&inner),
      shapes_(shapes_of(model, compute_dtype)),
      stages_(std::move(stages)),
      stage_(ranks.rank()),
      units_(stages_.at(static_cast<std::size_t>(stage_))),
      device_(device),
      looks_ahead_(device.is_cpu()),
      partition_(partition),
      forward_(ranks, device),
      backward_(ranks, device) {}

const StageFlow& PipelineStage::flow_of(const at::Tensor& images) {
  std::vector<StageFlow>& flows = flows_[images.sizes().vec()];
  if (flows.empty()) {
    flows = stage_flows(
        shapes_, stages_,
        {.images = images.size(0), .height = images.size(2), .width = images.size(3), .partition = &partition_});
  }
  return flows[static_cast<std::size_t>(stage_)];
}

nn::UnitState PipelineStage::run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                                 const nn::ForwardContext& context) {
  const auto place = static_cast<int64_t>(index);
  if (place == 0) {
    images_ = state.x;
    running_ = {.flow = &flow_of(state.x)};
  }
  if (place == units_.begin && stage_ > 0) state = take(std::move(state), running_);
  if (place >= units_.begin && place < units_.end) {
    state = run_inner(unit, index, std::move(state), context);
    if (place + 1 == units_.end) give(state, running_);
  }
  if (place + 1 < stages_.back().end) return state;

  const at::Tensor images = std::exchange(images_, {});
  Pass pass = std::exchange(running_, {});
  if (at::GradMode::is_enabled()) {
    passes_.push_back(std::move(pass));
    return is_last() ? std::move(state) : nn::UnitState{};
  }
  return {.x = shared_answer(state.x, images)};
}

at::Tensor PipelineStage::memory_for(const StageValue& value) const {
  return at::empty(value.sizes,
                   at::TensorOptions(value.dtype).device(device_).memory_format(format_of(value.sizes.size())));
}

void PipelineStage::expect(int64_t passes) {
  DDPM_CHECK(passes_.empty() && forwards_left_ == 0 && backwards_left_ == 0, "passes that were expected are not made");
  expected_ = true;
  forwards_left_ = stage_ > 0 ? passes : 0;
  backwards_left_ = passes;
}

PipelineStage::Arrival PipelineStage::inputs(const StageFlow& flow) {
  Arrival arrival{.flow = &flow};
  std::vector<StageMessage> messages;
  for (const StageValue& value : flow.in) {
    arrival.tensors.push_back(memory_for(value));
    messages.push_back({value.stage, arrival.tensors.back()});
  }
  arrival.number = forward_.receive(messages, comm::tags::kActivations);
  return arrival;
}

PipelineStage::Arrival PipelineStage::gradients(const StageFlow& flow) {
  Arrival arrival{.flow = &flow};
  std::vector<StageMessage> messages;
  for (const StageValue& value : flow.out) {
    if (!value.has_gradient) continue;
    arrival.tensors.push_back(memory_for(value));
    messages.push_back({value.stage, arrival.tensors.back()});
  }
  arrival.number = backward_.receive(messages, comm::tags::kActivations);
  return arrival;
}

nn::UnitState PipelineStage::take(nn::UnitState state, Pass& pass) {
  DDPM_CHECK(at::GradMode::is_enabled() || forwards_left_ == 0, "a pass without gradients between those expected");
  Arrival arrival = next_forward_ ? std::move(*next_forward_) : inputs(*pass.flow);
  next_forward_.reset();
  DDPM_CHECK(arrival.flow == pass.flow, "images of other sizes than expected");
  forward_.wait_for(arrival.number);
  if (forwards_left_ > 0 && --forwards_left_ > 0 && looks_ahead_) next_forward_ = inputs(*pass.flow);
  pass.received = std::move(arrival.tensors);
  state.x = at::Tensor();
  state.skips.assign(pass.flow->skips, at::Tensor());
  for (std::size_t i = 0; i < pass.received.size(); ++i) {
    const StageValue& value = pass.flow->in[i];
    pass.received[i].set_requires_grad(value.has_gradient && at::GradMode::is_enabled());
    for (const std::size_t place : value.places) state_value(state, place) = pass.received[i];
  }
  return state;
}

void PipelineStage::give(nn::UnitState& state, Pass& pass) {
  std::vector<StageMessage> messages;
  for (const StageValue& value : pass.flow->out) {
    const at::Tensor& tensor = state_value(state, value.places.front());
    DDPM_CHECK(tensor.sizes() == value.sizes && tensor.scalar_type() == value.dtype,
               "value {} for stage {} is not as planned", value.places.front(), value.stage);
    pass.given.push_back(tensor);
    messages.push_back({value.stage, as_sent(tensor)});
  }
  forward_.send(messages, comm::tags::kActivations);
  if (backwards_left_ > 0 && looks_ahead_ && !next_backward_) next_backward_ = gradients(*pass.flow);
}

void PipelineStage::backward(const at::Tensor& objective) {
  DDPM_CHECK(!passes_.empty() && objective.defined() == is_last(), "backward without a forward pass");
  Pass pass = std::move(passes_.front());
  passes_.pop_front();
  Arrival arrival = next_backward_ ? std::move(*next_backward_) : gradients(*pass.flow);
  next_backward_.reset();
  DDPM_CHECK(arrival.flow == pass.flow, "images of other sizes than expected");
  backward_.wait_for(arrival.number);
  if (backwards_left_ > 0 && --backwards_left_ > 0 && looks_ahead_) next_backward_ = gradients(*pass.flow);
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> of_roots = std::move(arrival.tensors);
  for (std::size_t i = 0; i < pass.given.size(); ++i) {
    if (pass.flow->out[i].has_gradient) roots.push_back(pass.given[i]);
  }
  if (objective.defined()) {
    roots.push_back(objective);
    of_roots.emplace_back();
  }
  pass.given.clear();
  if (!roots.empty()) torch::autograd::backward(roots, of_roots);
  roots.clear();

  std::vector<StageMessage> messages;
  for (std::size_t i = 0; i < pass.received.size(); ++i) {
    const StageValue& value = pass.flow->in[i];
    if (!value.has_gradient) continue;
    const at::Tensor& gradient = pass.received[i].grad();
    messages.push_back({value.stage, gradient.defined() ? as_sent(gradient) : memory_for(value).zero_()});
  }
  backward_.send(messages, comm::tags::kActivations);
}

at::Tensor PipelineStage::shared_answer(const at::Tensor& answer, const at::Tensor& images) {
  const int64_t last = std::ssize(stages_) - 1;
  if (!is_last()) {
    at::Tensor shared = at::empty({images.size(0), shapes_.config().out_channels, images.size(2), images.size(3)},
                                  at::TensorOptions(at::kFloat).device(device_));
    const StageMessage message{last, shared};
    forward_.wait_for(forward_.receive({&message, 1}, comm::tags::kAnswer));
    return shared;
  }
  at::Tensor shared = answer.contiguous();
  std::vector<StageMessage> messages;
  for (int64_t stage = 0; stage < last; ++stage) messages.push_back({stage, shared});
  forward_.send(messages, comm::tags::kAnswer);
  return shared;
}

void PipelineStage::finish() {
  forward_.drain();
  backward_.drain();
  looks_ahead_ = device_.is_cpu() || expected_;
  expected_ = false;
}

void PipelineStage::trace(base::Trace* trace) {
  forward_.trace(trace);
  backward_.trace(trace);
}

double PipelineStage::take_exposed_seconds() {
  return forward_.take_exposed_seconds() + backward_.take_exposed_seconds();
}

}  // namespace ddpm::parallel
