#include "nn/ops/cpu/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "nn/ops/cpu/dispatch.h"
#include "nn/ops/cpu/items.h"

namespace ddpm::nn::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kHeads = "heads";
constexpr int64_t kLargestHead = 64;

/// Where a head lies in q and in k.
struct HeadPlace {
  int64_t q;
  int64_t k;
};

/// q, k and v as pointers.
template <typename T>
class Heads {
 public:
  Heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads)
      : q_(pointer(q)),
        k_(pointer(k)),
        v_(pointer(v)),
        images_(q.size(0)),
        heads_(heads),
        queries_(q.size(1)),
        keys_(k.size(1)),
        channels_(q.size(2)) {}

  [[nodiscard]] int64_t count() const { return images_ * heads_; }
  [[nodiscard]] int64_t queries() const { return queries_; }
  [[nodiscard]] HeadPlace place(int64_t head) const {
    const int64_t channel = head % heads_ * (channels_ / heads_);
    return {.q = head / heads_ * queries_ * channels_ + channel, .k = head / heads_ * keys_ * channels_ + channel};
  }
  [[nodiscard]] AttentionHead<T> at(int64_t head) const {
    const HeadPlace p = place(head);
    return {.q = q_ + p.q,
            .k = k_ + p.k,
            .v = v_ + p.k,
            .queries = queries_,
            .keys = keys_,
            .size = channels_ / heads_,
            .stride = channels_};
  }

 private:
  static const T* pointer(const at::Tensor& t) { return static_cast<const T*>(t.const_data_ptr()); }

  const T* q_;
  const T* k_;
  const T* v_;
  int64_t images_;
  int64_t heads_;
  int64_t queries_;
  int64_t keys_;
  int64_t channels_;
};

template <typename T>
void forward_heads(const Heads<T>& heads, const at::Tensor& y, const at::Tensor& log_sums) {
  const AttentionKernels<T>& kernel = attention_kernels<T>();
  T* const y_data = static_cast<T*>(y.mutable_data_ptr());
  float* const sums = log_sums.mutable_data_ptr<float>();
  for_items(heads.count(), kernel.forward_scratch(heads.at(0)), [&](int64_t head, float* scratch) {
    kernel.forward(heads.at(head), y_data + heads.place(head).q, sums + head * heads.queries(), scratch);
  });
}

struct Gradients {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

template <typename T>
void backward_heads(const Heads<T>& heads, const at::Tensor& y, const at::Tensor& log_sums, const at::Tensor& dy,
                    const Gradients& gradients) {
  const AttentionKernels<T>& kernel = attention_kernels<T>();
  const T* const y_data = static_cast<const T*>(y.const_data_ptr());
  const T* const dy_data = static_cast<const T*>(dy.const_data_ptr());
  const float* const sums = log_sums.const_data_ptr<float>();
  T* const dq = static_cast<T*>(gradients.q.mutable_data_ptr());
  T* const dk = static_cast<T*>(gradients.k.mutable_data_ptr());
  T* const dv = static_cast<T*>(gradients.v.mutable_data_ptr());
  for_items(heads.count(), kernel.backward_scratch(heads.at(0)), [&](int64_t head, float* scratch) {
    const HeadPlace p = heads.place(head);
    kernel.backward(heads.at(head), y_data + p.q, sums + head * heads.queries(), dy_data + p.q, dq + p.q, dk + p.k,
                    dv + p.k, scratch);
  });
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t heads) {
    at::Tensor y = at::empty_like(q);
    const at::Tensor log_sums = at::empty({q.size(0), heads, q.size(1)}, at::kFloat);
    for_dtype(q, [&]<typename T>(T* /*of*/) { forward_heads(Heads<T>(q, k, v, heads), y, log_sums); });
    context->save_for_backward({q, k, v, log_sums, y});
    context->saved_data[kHeads] = heads;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "attention has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &log_sums = saved[3], &y = saved[4];
    const Gradients result{.q = at::empty_like(q), .k = at::empty_like(k), .v = at::empty_like(v)};
    const at::Tensor dy = gradients[0].to(q.scalar_type()).contiguous();
    const int64_t heads = context->saved_data[kHeads].toInt();
    for_dtype(q, [&]<typename T>(T* /*of*/) { backward_heads(Heads<T>(q, k, v, heads), y, log_sums, dy, result); });
    return {result.q, result.k, result.v, at::Tensor()};
  }
};

}  // namespace

bool takes_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  const at::ScalarType dtype = q.scalar_type();
  const int64_t size = q.size(2) / heads;
  const auto fits = [&](const at::Tensor& t) { return t.scalar_type() == dtype && t.is_contiguous() && t.numel() > 0; };
  return has_kernels(dtype) && fits(q) && fits(k) && fits(v) && size <= kLargestHead && size % kHeadMultiple == 0;
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  return AttentionFunction::apply(q, k, v, heads);
}

bool takes_tile_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  return q.scalar_type() == at::kBFloat16 && tile_kernels() != nullptr && takes_attention(q, k, v, heads);
}

at::Tensor tile_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  const at::NoGradGuard no_grad;
  at::Tensor y = at::empty_like(q);
  const Heads<BFloat16> all(q, k, v, heads);
  const TileAttention& kernel = tile_kernels()->attention;
  auto* const y_data = static_cast<BFloat16*>(y.mutable_data_ptr());
  for_items(all.count(), kernel.scratch(all.at(0)),
            [&](int64_t head, float* scratch) { kernel.forward(all.at(head), y_data + all.place(head).q, scratch); });
  return y;
}

}  // namespace ddpm::nn::cpu
