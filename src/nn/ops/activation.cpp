#include "nn/ops/activation.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::nn {

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names = {"silu", "swish", "mish", "gelu", "relu"};
  return names;
}

Activation parse_activation(const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "mish") return Activation::mish;
  if (name == "gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  throw base::ConfigError("model.act_fn: \"{}\" is unknown; wanted one of {}", name,
                          fmt::join(activation_names(), ", "));
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
      return at::threshold(x, 0, 0);  // the same as at::relu, which has no meta kernel outside Python
  }
  throw base::InternalError("activation {} is not in the list", static_cast<int>(activation));
}

}  // namespace ddpm::nn
