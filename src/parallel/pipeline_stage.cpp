#include "parallel/pipeline_stage.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/check.h"
#include "base/clock.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::parallel {
namespace {

constexpr int kStateTag = 3;
constexpr int kAnswerTag = 4;

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
      partition_(partition),
      forward_(ranks.duplicate()),
      backward_(ranks.duplicate()) {}

const StageFlow& PipelineStage::flow_of(const at::Tensor& images) {
  std::vector<StageFlow>& flows = flows_[images.sizes().vec()];
  if (flows.empty()) {
    flows = stage_flows(
        shapes_, stages_,
        {.images = images.size(0), .height = images.size(2), .width = images.size(3), .partition = &partition_});
  }
  return flows[static_cast<std::size_t>(stage_)];
}

nn::State PipelineStage::run(const nn::Unit& unit, std::size_t index, nn::State state, const nn::Context& context) {
  const auto place = static_cast<int64_t>(index);
  if (place == 0) {
    images_ = state.x;
    running_ = {.flow = &flow_of(state.x)};
  }
  if (place == units_.begin && stage_ > 0) state = take(std::move(state), running_);
  if (place >= units_.begin && place < units_.end) {
    state = run_inner(unit, index, std::move(state), context);
    move_on();
    move_on_in_backward(state.x);
    if (place + 1 == units_.end) give(state, running_);
  }
  if (place + 1 < stages_.back().end) return state;

  const at::Tensor images = std::exchange(images_, {});
  Pass pass = std::exchange(running_, {});
  if (at::GradMode::is_enabled()) {
    passes_.push_back(std::move(pass));
    return is_last() ? std::move(state) : nn::State{};
  }
  return {.x = shared_answer(state.x, images)};
}

at::Tensor PipelineStage::memory_for(const StageValue& value) const {
  return at::empty(value.sizes,
                   at::TensorOptions(value.dtype).device(device_).memory_format(format_of(value.sizes.size())));
}

nn::State PipelineStage::take(nn::State state, Pass& pass) {
  std::vector<comm::Incoming> messages;
  for (const StageValue& value : pass.flow->in) {
    pass.received.push_back(memory_for(value));
    messages.push_back({message_into(pass.received.back()), static_cast<int>(value.stage), kStateTag});
  }
  receive(*forward_, messages);
  state.x = at::Tensor();
  state.skips.assign(pass.flow->skips, at::Tensor());
  for (std::size_t i = 0; i < pass.received.size(); ++i) {
    const StageValue& value = pass.flow->in[i];
    pass.received[i].set_requires_grad(value.has_gradient && at::GradMode::is_enabled());
    for (const std::size_t place : value.places) state_value(state, place) = pass.received[i];
  }
  return state;
}

void PipelineStage::give(nn::State& state, Pass& pass) {
  std::vector<comm::Outgoing> messages;
  std::vector<at::Tensor> kept;
  for (const StageValue& value : pass.flow->out) {
    const at::Tensor& tensor = state_value(state, value.places.front());
    DDPM_CHECK(tensor.sizes() == value.sizes && tensor.scalar_type() == value.dtype,
               "value {} for stage {} is not as planned", value.places.front(), value.stage);
    pass.given.push_back(tensor);
    kept.push_back(as_sent(tensor));
    messages.push_back({message_of(kept.back()), static_cast<int>(value.stage), kStateTag});
  }
  send(*forward_, messages, std::move(kept));
}

void PipelineStage::backward(const at::Tensor& objective) {
  DDPM_CHECK(!passes_.empty() && objective.defined() == is_last(), "backward without a forward pass");
  Pass pass = std::move(passes_.front());
  passes_.pop_front();
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> gradients;
  if (objective.defined()) {
    roots.push_back(objective);
    gradients.emplace_back();
  }
  std::vector<comm::Incoming> wanted;
  for (std::size_t i = 0; i < pass.given.size(); ++i) {
    const StageValue& value = pass.flow->out[i];
    if (!value.has_gradient) continue;
    roots.push_back(pass.given[i]);
    gradients.push_back(memory_for(value));
    wanted.push_back({message_into(gradients.back()), static_cast<int>(value.stage), kStateTag});
  }
  receive(*backward_, wanted);
  pass.given.clear();
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  roots.clear();

  std::vector<comm::Outgoing> messages;
  std::vector<at::Tensor> kept;
  for (std::size_t i = 0; i < pass.received.size(); ++i) {
    const StageValue& value = pass.flow->in[i];
    if (!value.has_gradient) continue;
    const at::Tensor& gradient = pass.received[i].grad();
    kept.push_back(gradient.defined() ? as_sent(gradient) : memory_for(value).zero_());
    messages.push_back({message_of(kept.back()), static_cast<int>(value.stage), kStateTag});
  }
  send(*backward_, messages, std::move(kept));
}

at::Tensor PipelineStage::shared_answer(const at::Tensor& answer, const at::Tensor& images) {
  const int last = forward_->size() - 1;
  if (!is_last()) {
    at::Tensor shared = at::empty({images.size(0), shapes_.config().out_channels, images.size(2), images.size(3)},
                                  at::TensorOptions(at::kFloat).device(device_));
    receive(*forward_, {{buffer_of(shared), last, kAnswerTag}});
    return shared;
  }
  at::Tensor shared = answer.contiguous();
  std::vector<comm::Outgoing> messages;
  messages.reserve(static_cast<std::size_t>(last));
  for (int stage = 0; stage < last; ++stage) messages.push_back({buffer_of(shared), stage, kAnswerTag});
  send(*forward_, messages, {shared});
  return shared;
}

/// MPI moves large messages inside of its calls alone: what was sent is asked for after each unit.
void PipelineStage::move_on() {
  for (Sent& message : sent_) message.work.test();
  while (!sent_.empty() && sent_.front().work.test()) sent_.pop_front();
}

void PipelineStage::move_on_in_backward(const at::Tensor& result) {
  if (!device_.is_cpu() || !at::GradMode::is_enabled() || !result.requires_grad()) return;
  result.register_hook([this](const at::Tensor& /*gradient*/) { move_on(); });
}

void PipelineStage::send(comm::Communicator& way, const std::vector<comm::Outgoing>& messages,
                         std::vector<at::Tensor> kept) {
  move_on();
  if (messages.empty()) return;
  sent_.push_back({way.exchange(messages, {}), std::move(kept)});
}

void PipelineStage::receive(comm::Communicator& way, const std::vector<comm::Incoming>& messages) {
  if (messages.empty()) return;
  const auto began = base::Clock::now();
  way.exchange({}, messages).wait();
  exposed_seconds_ += base::seconds_since(began);
}

void PipelineStage::finish() {
  for (; !sent_.empty(); sent_.pop_front()) sent_.front().work.wait();
}

double PipelineStage::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace ddpm::parallel
