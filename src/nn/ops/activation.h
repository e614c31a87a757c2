// Pointwise non-linearities, by diffusers' names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

enum class Activation : uint8_t { none, silu, mish, gelu, relu };

/// The names that parse_activation() accepts; "swish" is another name for "silu".
const std::vector<std::string>& activation_names();
/// Throws base::ConfigError for an unknown name.
Activation parse_activation(const std::string& name);
at::Tensor activate(const at::Tensor& x, Activation activation);

}  // namespace ddpm::nn
