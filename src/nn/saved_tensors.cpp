#include "nn/saved_tensors.h"

#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace ddpm::nn {
namespace {

thread_local SavedTensorHandler* innermost = nullptr;

class Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(SavedTensorHandler& handler) : handler_(handler) {}
  // Comes right after the constructor, so the handler is there; unpacking comes much later.
  void call_pack_hook(const at::Tensor& tensor) override { saved_ = handler_.save(tensor); }
  at::Tensor call_unpack_hook() override { return saved_->restore(); }

 private:
  SavedTensorHandler& handler_;
  std::unique_ptr<SavedTensor> saved_;
};

class HookingEngine final : public torch::autograd::Engine {
 public:
  HookingEngine() = default;
  HookingEngine(const HookingEngine&) = delete;
  HookingEngine& operator=(const HookingEngine&) = delete;
  ~HookingEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return innermost != nullptr ? std::make_unique<Hooks>(*innermost) : nullptr;
  }
};

torch::autograd::Engine& hooking_engine() {
  static HookingEngine engine;
  return engine;
}

// Before main(): a process has one set of threads for devices, which the engine that first computes gradients takes.
[[maybe_unused]] const bool installed = [] {
  torch::autograd::set_default_engine_stub(hooking_engine);
  return true;
}();

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorHandler& handler) : outer_(std::exchange(innermost, &handler)) {}

SavedTensorScope::~SavedTensorScope() { innermost = outer_; }

SavedTensorHandler* SavedTensorScope::current() { return innermost; }

}  // namespace ddpm::nn
