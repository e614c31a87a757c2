#include "nn/ops/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/threshold.h>

#include "base/error.h"

namespace ddpm::nn {

Activation activation_of(ActivationName name) {
  switch (name) {
    case ActivationName::silu:
    case ActivationName::swish:
      return Activation::silu;
    case ActivationName::mish:
      return Activation::mish;
    case ActivationName::gelu:
      return Activation::gelu;
    case ActivationName::relu:
      return Activation::relu;
  }
  throw base::InternalError("activation {}", static_cast<int>(name));
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::silu:
      return at::silu(x);
    case Activation::mish:
      return at::mish(x);
    case Activation::gelu:
      return at::gelu(x);
    case Activation::relu:
      return at::threshold(x, 0, 0);  // computes at::relu, which has no meta kernel outside Python
  }
  throw base::InternalError("activation {} is not in the list", static_cast<int>(activation));
}

}  // namespace ddpm::nn
