#include "parallel/weight_gatherer.h"

#include <array>
#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "parallel/tensor_buffer.h"

namespace ddpm::parallel {
WeightGatherer::WeightGatherer(ParameterArena& arena, comm::Communicator& shard, bool overlap, nn::UnitExecutor* inner)
    : UnitExecutor(inner),
      arena_(arena),
      shard_(shard),
      copies_(arena.gradient().device()),
      queue_(queue_mode(overlap, arena.gradient().device())) {
  if (!by_unit()) return;
  transfer_.assign(arena.layout().segments().size(), kAbsent);
  incoming_.resize(transfer_.size());
}

void WeightGatherer::weights_changed() {
  if (by_unit()) {
    release_all();
  } else if (arena_.sharding().parts > 1) {
    gather_segments();
  }
}

void WeightGatherer::gather_segments() {
  const auto& segments = arena_.layout().segments();
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const at::Tensor whole = arena_.working().narrow(0, segments[s].begin, segments[s].size());
    const at::Tensor own = arena_.working_part(s);
    queue_.push({{[this, whole, own] { return shard_.all_gather(buffer_of(own), buffer_of(whole)); }},
                 {},
                 fmt::format("weights {}, {} values", s, whole.numel())});
  }
  queue_.drain();
}

void WeightGatherer::fetch(std::size_t unit) {
  const at::Tensor& weights = arena_.unit_weights(unit);
  if (transfer_[unit] != kAbsent || weights.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const at::Tensor incoming = at::empty({weights.numel()}, weights.options());
  auto sent = std::make_shared<at::Tensor>(arena_.working_part(unit));
  incoming_[unit] = incoming;
  transfer_[unit] = queue_.push({{[this, incoming, sent] { return gather(*sent, incoming); }},
                                 {},
                                 fmt::format("weights of unit {}, {} values", unit, incoming.numel())});
}

comm::Work WeightGatherer::gather(at::Tensor& sent, const at::Tensor& incoming) {
  const at::NoGradGuard no_grad;
  c10::OptionalStreamGuard guard;
  if (sent.device() != incoming.device()) {  // offloaded
    copies_.after_caller();
    copies_.enter(guard);  // the collective follows the copy
    sent = sent.to(incoming.device(), /*non_blocking=*/true);
  }
  return shard_.all_gather(buffer_of(sent), buffer_of(incoming));
}

void WeightGatherer::require(std::size_t unit) {
  fetch(unit);
  if (!incoming_[unit].defined()) return;
  queue_.wait_for(transfer_[unit]);
  arena_.adopt_unit(unit, std::exchange(incoming_[unit], {}));
}

void WeightGatherer::release(std::size_t unit) {
  if (!by_unit() || transfer_[unit] == kAbsent || hold_) return;
  if (incoming_[unit].defined()) {  // fetched and never used
    queue_.wait_for(transfer_[unit]);
    incoming_[unit].reset();
  } else {
    arena_.set_unit_present(unit, false);
  }
  transfer_[unit] = kAbsent;
}

void WeightGatherer::release_all() {
  hold_ = false;
  for (std::size_t unit = 0; unit < transfer_.size(); ++unit) release(unit);
}

void WeightGatherer::discard() {
  queue_.discard();
  for (std::size_t unit = 0; unit < transfer_.size(); ++unit) {
    if (transfer_[unit] != kAbsent && !incoming_[unit].defined()) arena_.set_unit_present(unit, false);
    incoming_[unit].reset();
    transfer_[unit] = kAbsent;
  }
}

void WeightGatherer::gather_all() {
  for (std::size_t unit = 0; unit < transfer_.size(); ++unit) fetch(unit);
  for (std::size_t unit = 0; unit < transfer_.size(); ++unit) require(unit);
  hold_ = true;
}

nn::UnitState WeightGatherer::run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                                  const nn::ForwardContext& context) {
  if (index >= transfer_.size()) return run_inner(unit, index, std::move(state), context);
  before_forward(index);
  const at::Tensor picture = state.picture;
  nn::UnitState after = run_inner(unit, index, std::move(state), context);
  // The first unit makes what all others read beside the activations; a unit may pass a picture on as it came.
  const bool first = index == 0;
  const std::array<at::Tensor, 4> carriers = {after.x, first ? after.temb : at::Tensor(),
                                              first ? after.embedding : at::Tensor(),
                                              after.picture.is_same(picture) ? at::Tensor() : after.picture};
  after_forward(index, carriers);
  return after;
}

std::vector<at::Tensor> WeightGatherer::run(std::size_t unit, const std::function<std::vector<at::Tensor>()>& forward) {
  if (unit >= transfer_.size()) return forward();
  before_forward(unit);
  std::vector<at::Tensor> results = forward();
  after_forward(unit, results);
  return results;
}

void WeightGatherer::before_forward(std::size_t unit) {
  require(unit);
  if (unit + 1 < transfer_.size()) fetch(unit + 1);
}

void WeightGatherer::after_forward(std::size_t unit, std::span<const at::Tensor> carriers) {
  bool recorded = false;
  for (const at::Tensor& carrier : carriers) {
    if (!at::GradMode::is_enabled() || !carrier.defined() || !carrier.requires_grad()) continue;
    carrier.register_hook([this, unit](const at::Tensor& /*gradient*/) { before_backward(unit); });
    recorded = true;
  }
  if (recorded && unit + 1 == transfer_.size()) return;  // backward begins with it
  release(unit);
}

void WeightGatherer::before_backward(std::size_t unit) {
  require(unit);
  if (unit > 0) fetch(unit - 1);
}

}  // namespace ddpm::parallel
