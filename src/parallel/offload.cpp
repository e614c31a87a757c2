#include "parallel/offload.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "parallel/offload_bytes.h"

namespace ddpm::parallel {
namespace {

at::Tensor part(const at::Tensor& piece, layout::Range range) { return piece.narrow(0, range.begin, range.size()); }

}  // namespace

OffloadedUpdate::OffloadedUpdate(ParameterArena& arena, int64_t chunk)
    : arena_(arena),
      working_(arena.working_pieces()),
      down_(arena.gradient().device()),
      up_(arena.gradient().device()) {
  DDPM_CHECK(arena.sharding().offload != Offload::none, "an update of state that is not offloaded");
  int64_t longest = 0;
  for (std::size_t piece = 0; piece < arena.pieces().size(); ++piece) {
    const int64_t size = arena.pieces()[piece].size();
    longest = std::max(longest, std::min(chunk, size));
    for (int64_t begin = 0; begin < size; begin += chunk) {
      chunks_.push_back({piece, {begin, std::min(size, begin + chunk)}});
    }
  }
  const bool device = !arena.gradient().is_cpu();
  const auto host = at::TensorOptions().pinned_memory(device);
  const OffloadedState state{.offload = arena.sharding().offload,
                             .longest = longest,
                             .weight_bytes = static_cast<int64_t>(arena.working().element_size())};
  for (ChunkInFlight& slot : slots_) {  // as offload_chunk_bytes() counts them
    slot.gradient = at::empty({longest}, host.dtype(at::kFloat));
    if (device && state.rounds()) {
      slot.weights = at::empty({longest}, host.dtype(arena.working().scalar_type()));
    }
  }
}

void OffloadedUpdate::start() {
  down_.after_caller();
  for (std::size_t chunk = 0; chunk < std::min(kOffloadChunks, chunks_.size()); ++chunk) fetch(chunk);
}

void OffloadedUpdate::fetch(std::size_t chunk) {
  const auto& [piece, range] = chunks_[chunk];
  ChunkInFlight& slot = slot_of(chunk);
  down_.copy(slot.gradient.narrow(0, 0, range.size()), part(arena_.gradient_pieces()[piece], range));
  slot.fetched = down_.mark();
}

void OffloadedUpdate::run(const UpdateChunk& update) {
  const at::NoGradGuard no_grad;
  up_.after_caller();  // what still reads the old weights
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const auto& [piece, range] = chunks_[chunk];
    ChunkInFlight& slot = slot_of(chunk);
    slot.fetched.wait();
    update(piece, range, {slot.gradient.const_data_ptr<float>(), static_cast<std::size_t>(range.size())});
    send(chunk);
    if (chunk + kOffloadChunks < chunks_.size()) fetch(chunk + kOffloadChunks);
  }
  up_.before_caller();
}

void OffloadedUpdate::send(std::size_t chunk) {
  const auto& [piece, range] = chunks_[chunk];
  const at::Tensor master = part(arena_.master()[piece], range);
  const at::Tensor working = part(working_[piece], range);
  if (working.is_alias_of(master)) return;  // float32 weights that stay in host memory
  ChunkInFlight& slot = slot_of(chunk);
  if (!slot.weights.defined()) {
    up_.copy(working, master);
    return;
  }
  slot.sent.wait();
  const at::Tensor rounded = slot.weights.narrow(0, 0, range.size());
  rounded.copy_(master);
  up_.copy(working, rounded);
  slot.sent = up_.mark();
}

}  // namespace ddpm::parallel
