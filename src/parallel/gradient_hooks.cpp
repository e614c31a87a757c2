#include "parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace ddpm::parallel {
namespace {

class Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(const GradientHooks::Callback& callback, std::size_t index) : callback_(callback), index_(index) {}
  void operator()(const at::Tensor& /*parameter*/) override { callback_(index_); }

 private:
  const GradientHooks::Callback& callback_;
  std::size_t index_;
};

}  // namespace

GradientHooks::GradientHooks(const ParameterArena& arena, Callback callback)
    : arena_(arena), callback_(std::move(callback)) {
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(*arena_.entries()[i].value, std::make_unique<Hook>(callback_, i));
  }
}

GradientHooks::~GradientHooks() {
  for (const auto& entry : arena_.entries()) {
    torch::autograd::impl::set_post_acc_grad_hooks(*entry.value, nullptr);
  }
}

}  // namespace ddpm::parallel
