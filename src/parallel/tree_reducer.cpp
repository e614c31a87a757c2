#include "parallel/tree_reducer.h"

#include <array>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "base/clock.h"

namespace ddpm::parallel {
namespace {

/// Elements of one message: what is received is added while it is still in the cache, and needs little memory.
constexpr int64_t kMessage = int64_t{1} << 20;

/// sum += the partner's sum. Addition of two numbers does not depend on their order: both get the same bits.
void add_partner(comm::Communicator& comm, int partner, const at::Tensor& sum, const at::Tensor& received) {
  for (int64_t begin = 0; begin < sum.numel(); begin += kMessage) {
    const int64_t count = std::min(kMessage, sum.numel() - begin);
    const at::Tensor part = sum.narrow(0, begin, count);
    const std::array out{comm::Outgoing{{part.const_data_ptr(), count, base::DType::f32}, partner}};
    const std::array in{comm::Incoming{{received.mutable_data_ptr(), count, base::DType::f32}, partner}};
    comm.exchange(out, in).wait();
    part.add_(received.narrow(0, 0, count));
  }
}

}  // namespace

TreeReducer::TreeReducer(ParameterArena& arena, const GradientGroups& groups, int64_t tiles)
    : arena_(arena),
      groups_(groups),
      tiles_(static_cast<int>(tiles)),
      hooks_(arena, [this](std::size_t index) { add(index); }) {
  DDPM_CHECK(!arena.sharding().cuts_gradients(), "stage {}", arena.sharding().zero_stage);
}

void TreeReducer::discard() {
  stack_.clear();
  spare_.clear();
  leaf_.reset();
}

void TreeReducer::begin_step() { stack_.clear(); }

at::Tensor TreeReducer::take_buffer() {
  if (stack_.empty()) return arena_.gradient();
  if (spare_.empty()) return at::empty_like(arena_.gradient());
  at::Tensor buffer = spare_.back();
  spare_.pop_back();
  return buffer;
}

void TreeReducer::begin_micro_batch(bool /*last*/) {
  const at::NoGradGuard no_grad;
  leaf_ = take_buffer();
  leaf_.zero_();  // also the gradient of a parameter that this graph does not use
}

void TreeReducer::add(std::size_t index) {
  const at::NoGradGuard no_grad;
  const auto& entry = arena_.entries()[index];
  at::Tensor& gradient = entry.value->mutable_grad();
  ParameterArena::view(leaf_.narrow(0, entry.range.begin, entry.range.size()), entry).copy_(gradient);
  gradient.reset();
}

void TreeReducer::end_micro_batch() {
  const at::NoGradGuard no_grad;
  stack_.push_back({0, std::exchange(leaf_, {})});
  while (stack_.size() > 1 && stack_[stack_.size() - 2].level == stack_.back().level) {
    Node right = std::move(stack_.back());
    stack_.pop_back();
    stack_.back().sum.add_(right.sum);
    ++stack_.back().level;
    spare_.push_back(std::move(right.sum));
  }
}

void TreeReducer::finalize() {
  const at::NoGradGuard no_grad;
  DDPM_CHECK(stack_.size() == 1, "{} sums are left over: the number of micro-batches is not a power of two",
             stack_.size());
  const auto start = base::Clock::now();
  comm::Communicator& comm = groups_.gradients();
  if (comm.size() > 1) {
    const at::Tensor received = at::empty({std::min(kMessage, arena_.size())}, arena_.gradient().options());
    const auto add_partners = [&](int first, int end) {
      for (int distance = first; distance < end; distance *= 2) {
        add_partner(comm, comm.rank() ^ distance, arena_.gradient(), received);
      }
    };
    add_partners(tiles_, comm.size());
    add_partners(1, tiles_);
  }
  exposed_seconds_ = base::seconds_since(start);
}

}  // namespace ddpm::parallel
