#include "parallel/gradient_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "nn/ops/as_on_cuda.h"
#include "parallel/gather.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::parallel {
namespace {

/// Segments with memory of their own that may wait for the network at a time: staged ones in stages 2 and 3, and on a
/// GPU copies in 16 bits in any stage. On a host the thread that sends them makes one such copy at a time.
constexpr int64_t kMaxWaiting = 2;

std::optional<at::ScalarType> compressed_dtype(GradientCompression compression) {
  switch (compression) {
    case GradientCompression::none:
      return std::nullopt;
    case GradientCompression::bf16:
      return at::kBFloat16;
    case GradientCompression::fp16:
      return at::kHalf;
  }
  throw base::InternalError("gradient compression {}", static_cast<int>(compression));
}

}  // namespace

OverlappedReducer::OverlappedReducer(ParameterArena& arena, const GradientGroups& groups, const ReducerOptions& options)
    : arena_(arena),
      groups_(groups),
      compressed_(compressed_dtype(options.compression)),
      entries_in_(arena.layout().segments().size(), 0),
      fresh_(arena.entries().size(), 0),
      started_(entries_in_.size(), 0),
      waits_(nn::computes_as_on_cuda(arena.gradient())),
      staging_(entries_in_.size()),
      queue_(queue_mode(options.overlap, arena.gradient().device())),
      hooks_(arena, [this](std::size_t index) { add(index); }) {
  const auto& segments = arena.layout().segments();
  for (const auto& entry : arena.entries()) {
    layout::Range touched{0, 0};
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (layout::intersect(segments[s], entry.range).empty()) continue;
      if (touched.empty()) touched.begin = static_cast<int64_t>(s);
      touched.end = static_cast<int64_t>(s) + 1;
      ++entries_in_[s];
    }
    segments_of_.push_back(touched);
  }
}

void OverlappedReducer::discard() {
  queue_.discard();
  forget_waiting();
  std::fill(staging_.begin(), staging_.end(), at::Tensor());
}

void OverlappedReducer::begin_step() {
  std::fill(fresh_.begin(), fresh_.end(), uint8_t{0});
  std::fill(started_.begin(), started_.end(), uint8_t{0});
  queue_.take_exposed_seconds();
}

void OverlappedReducer::begin_micro_batch(bool last) {
  DDPM_CHECK(into_.empty(), "{} gradients of the micro-batch before wait", into_.size());
  last_ = last;
  missing_ = entries_in_;
  next_ = missing_.size();
}

void OverlappedReducer::add(std::size_t index) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = arena_.entries()[index].value->mutable_grad();
  if (!arena_.sharding().cuts_gradients()) {
    add_to_whole(index, gradient);
  } else {
    add_to_staging(index, gradient);
  }
  gradient.reset();
  if (sends_now()) arrived(index);
}

void OverlappedReducer::add_to_whole(std::size_t index, const at::Tensor& gradient) {
  const layout::Range range = arena_.entries()[index].range;
  const bool add = std::exchange(fresh_[index], uint8_t{1}) != 0;
  move(arena_.gradient().narrow(0, range.begin, range.size()), ParameterArena::flatten(gradient), add);
}

void OverlappedReducer::add_to_staging(std::size_t index, const at::Tensor& gradient) {
  const auto& entry = arena_.entries()[index];
  const at::Tensor run = ParameterArena::flatten(gradient);
  for (int64_t s = segments_of_[index].begin; s < segments_of_[index].end; ++s) {
    const layout::Range segment = arena_.layout().segments()[static_cast<std::size_t>(s)];
    at::Tensor& staging = staging_[static_cast<std::size_t>(s)];
    if (!staging.defined()) staging = at::zeros({segment.size()}, arena_.gradient().options());
    const layout::Range part = layout::intersect(segment, entry.range);
    move(staging.narrow(0, part.begin - segment.begin, part.size()),
         run.narrow(0, part.begin - entry.range.begin, part.size()), /*add=*/false);
  }
}

void OverlappedReducer::move(const at::Tensor& into, const at::Tensor& from, bool add) {
  if (adds_ != add) move_waiting();
  adds_ = add;
  into_.push_back(into);
  from_.push_back(from);
  waiting_bytes_ += from.nbytes();
  if (!waits_ || waiting_bytes_ >= kWaitingGradientBytes) move_waiting();
}

void OverlappedReducer::move_waiting() {
  gather_(into_, from_, adds_);
  forget_waiting();
}

void OverlappedReducer::forget_waiting() {
  into_.clear();
  from_.clear();
  waiting_bytes_ = 0;
}

void OverlappedReducer::arrived(std::size_t index) {
  for (int64_t s = segments_of_[index].begin; s < segments_of_[index].end; ++s) {
    const auto segment = static_cast<std::size_t>(s);
    DDPM_CHECK(missing_[segment] > 0, "{} has a second gradient in one micro-batch", arena_.entries()[index].name);
    if (--missing_[segment] == 0 && segment_complete_) segment_complete_(segment);
  }
  launch_ready();
}

void OverlappedReducer::launch_ready() {
  while (next_ > 0 && missing_[next_ - 1] == 0) launch(--next_);
}

void OverlappedReducer::end_micro_batch() {
  const at::NoGradGuard no_grad;
  move_waiting();
  if (!sends_now()) return;
  if (!arena_.sharding().cuts_gradients()) {
    for (std::size_t i = 0; i < fresh_.size(); ++i) {
      const layout::Range range = arena_.entries()[i].range;
      // A parameter that this step's graph did not use.
      if (fresh_[i] == 0) arena_.gradient().narrow(0, range.begin, range.size()).zero_();
    }
  }
  std::fill(missing_.begin(), missing_.end(), 0);
  launch_ready();
}

void OverlappedReducer::launch(std::size_t segment) {
  const at::NoGradGuard no_grad;
  const layout::Range range = arena_.layout().segments()[segment];
  if (range.empty()) return;
  const bool staged = arena_.sharding().cuts_gradients();
  const bool sharded = arena_.sharding().parts > 1;
  if (!staged && groups_.gradients().size() == 1) return;
  move_waiting();
  const bool copied = compressed_.has_value() && !arena_.gradient().is_cpu();
  if (staged || copied) queue_.wait_until_pending(kMaxWaiting - 1);

  at::Tensor source =
      staged ? std::exchange(staging_[segment], {}) : arena_.gradient().narrow(0, range.begin, range.size());
  if (!source.defined()) source = at::zeros({range.size()}, arena_.gradient().options());
  const bool first = std::exchange(started_[segment], uint8_t{1}) == 0;
  const bool replicas = groups_.replicate().size() > 1;
  const at::Tensor target = arena_.gradient_part(segment);
  const layout::Range own = arena_.layout().part(segment, arena_.sharding().index);

  // `sent` is what travels, `received` where this rank's share of it arrives.
  auto sent = std::make_shared<at::Tensor>(source);
  const auto received = [sent, own, range] { return sent->narrow(0, own.begin - range.begin, own.size()); };
  Transfer transfer;
  transfer.stages.emplace_back([this, sent, received, sharded] {
    const at::NoGradGuard guard;
    if (compressed_) *sent = sent->to(*compressed_);
    if (!sharded) return groups_.replicate().all_reduce(buffer_of(*sent), comm::ReduceOp::sum);
    return groups_.shard().reduce_scatter(buffer_of(*sent), buffer_of(received()), comm::ReduceOp::sum);
  });
  if (sharded && replicas && !staged) {
    transfer.stages.emplace_back(
        [this, received] { return groups_.replicate().all_reduce(buffer_of(received()), comm::ReduceOp::sum); });
  }
  const auto land = [staged, first, target, received] {
    const at::NoGradGuard guard;
    if (staged && !first) {
      target.add_(received());
    } else if (!target.is_alias_of(received())) {
      target.copy_(received());
    }
  };
  if (staged && last_ && replicas && sharded) {
    transfer.stages.emplace_back([this, sent, target, land] {
      land();
      const at::NoGradGuard guard;
      *sent = compressed_ ? target.to(*compressed_) : target;
      return groups_.replicate().all_reduce(buffer_of(*sent), comm::ReduceOp::sum);
    });
    if (compressed_) {
      transfer.finish = [sent, target] {
        const at::NoGradGuard guard;
        target.copy_(*sent);
      };
    }
  } else {
    transfer.finish = land;
  }
  transfer.name = fmt::format("bucket {}, {} values", segment, range.size());
  queue_.push(std::move(transfer));
}

void OverlappedReducer::finalize() {
  queue_.drain();
  exposed_seconds_ = queue_.take_exposed_seconds();
}

}  // namespace ddpm::parallel
