// Stands for LibTorch's header where parsers of model files are fuzzed: they include headers that name a tensor, a
// device or a dtype in declarations, and use none.
#pragma once

#include <c10/core/Device.h>

namespace at {
class Tensor {};
using c10::Device;
inline constexpr auto kCPU = c10::DeviceType::CPU;
enum class ScalarType { Float };
inline constexpr auto kFloat = ScalarType::Float;
}  // namespace at
