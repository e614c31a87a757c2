// Pointwise non-linearities, by diffusers' names.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "nn/config.h"

namespace ddpm::nn {

enum class Activation : uint8_t { none, silu, mish, gelu, relu };

/// The activation that a configuration names.
Activation activation_of(ActivationName name);
at::Tensor activate(const at::Tensor& x, Activation activation);

}  // namespace ddpm::nn
