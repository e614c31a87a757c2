// Values of any type that a node of autograd's graph keeps from its forward to its backward pass.
#pragma once

#include <utility>

#include <torch/csrc/autograd/custom_function.h>

namespace ddpm::nn {

template <typename T>
struct Remembered : torch::CustomClassHolder {
  explicit Remembered(T of) : value(std::move(of)) {}
  T value;
};

constexpr const char* kRemembered = "remembered";

/// One value for each node.
template <typename T>
void remember(torch::autograd::AutogradContext& context, T value) {
  context.saved_data[kRemembered] = c10::IValue::make_capsule(c10::make_intrusive<Remembered<T>>(std::move(value)));
}

/// What the node's forward pass remembered, which is a T.
template <typename T>
const T& remembered(const torch::autograd::AutogradContext& context) {
  return static_cast<const Remembered<T>&>(*context.saved_data.at(kRemembered).toCapsule()).value;
}

}  // namespace ddpm::nn
