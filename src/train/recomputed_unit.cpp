#include "train/recomputed_unit.h"

#include <memory>
#include <mutex>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include "nn/recompute.h"

namespace ddpm::train {
namespace {

at::Tensor state_of(at::Generator generator) {  // a handle, whose mutex() is not const
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

/// While it lives, the generator continues from `state`.
class GeneratorScope {
 public:
  GeneratorScope(at::Generator generator, const at::Tensor& state)
      : generator_(std::move(generator)), before_(state_of(generator_)) {
    set_state(generator_, state);
  }
  ~GeneratorScope() { set_state(generator_, before_); }
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace

std::vector<at::Tensor> recompute_unit(
    const std::vector<at::Tensor>& inputs,
    const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& forward, c10::Device device) {
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  const auto first = std::make_shared<bool>(true);
  return nn::recompute_in_backward(
      inputs, [forward, generator, began = state_of(generator), first](const std::vector<at::Tensor>& again) {
        if (std::exchange(*first, false)) return forward(again);
        const GeneratorScope scope(generator, began);
        return forward(again);
      });
}

}  // namespace ddpm::train
