#include "parallel/gradient_reducer.h"

#include <chrono>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace ddpm::parallel {

/// Moves a parameter's fresh gradient into the flat buffer.
class GradientReducer::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientReducer& reducer, std::size_t index) : reducer_(reducer), index_(index) {}
  void operator()(const at::Tensor& /*parameter*/) override { reducer_.add(index_); }

 private:
  GradientReducer& reducer_;
  std::size_t index_;
};

GradientReducer::GradientReducer(ParameterArena& arena, comm::Communicator& data_parallel, const ParallelConfig& config)
    : arena_(arena),
      data_parallel_(data_parallel),
      fresh_(arena.entries().size(), 0),
      buckets_(make_buckets(arena.entries(), arena.size(), static_cast<int64_t>(config.bucket_mib * 1024.0 * 1024.0))) {
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    const auto& entry = arena_.entries()[i];
    gradients_.push_back(ParameterArena::view(arena_.gradient(), entry));
    torch::autograd::impl::set_post_acc_grad_hooks(*entry.value, std::make_unique<Hook>(*this, i));
  }
}

GradientReducer::~GradientReducer() {
  for (const auto& entry : arena_.entries()) {
    torch::autograd::impl::set_post_acc_grad_hooks(*entry.value, nullptr);
  }
}

void GradientReducer::begin_step() { std::fill(fresh_.begin(), fresh_.end(), uint8_t{0}); }

void GradientReducer::add(std::size_t index) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = arena_.entries()[index].value->mutable_grad();
  if (fresh_[index] == 0) {
    gradients_[index].copy_(gradient);
    fresh_[index] = 1;
  } else {
    gradients_[index].add_(gradient);
  }
  gradient.reset();
}

void GradientReducer::finalize() {
  for (std::size_t i = 0; i < fresh_.size(); ++i) {
    if (fresh_[i] == 0) gradients_[i].zero_();  // a parameter that this step's graph did not use
  }
  exposed_seconds_ = 0.0;
  if (data_parallel_.size() == 1) return;
  auto* data = arena_.gradient().mutable_data_ptr<float>();
  const auto start = std::chrono::steady_clock::now();
  std::vector<comm::Work> pending;
  for (const layout::Range& bucket : buckets_) {
    pending.push_back(
        data_parallel_.all_reduce({data + bucket.begin, bucket.size(), base::DType::f32}, comm::ReduceOp::sum));
  }
  for (comm::Work& work : pending) work.wait();
  exposed_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<layout::Range> make_buckets(const std::vector<ParameterArena::Entry>& entries, int64_t size,
                                        int64_t bucket_bytes) {
  std::vector<layout::Range> buckets;
  int64_t end = size;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const int64_t begin = entry->range.begin;
    const bool last = std::next(entry) == entries.rend();
    if (last || (end - begin) * static_cast<int64_t>(sizeof(float)) >= bucket_bytes) {
      buckets.push_back({begin, end});
      end = begin;
    }
  }
  return buckets;
}

}  // namespace ddpm::parallel
