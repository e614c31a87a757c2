// Stands for LibTorch's header where parsers of model files are fuzzed: they include headers that name a tensor, a
// device or a dtype in declarations, and use none.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace at {
class Tensor {};
using c10::Device;
inline constexpr auto kCPU = c10::DeviceType::CPU;
using c10::ScalarType;
inline constexpr auto kFloat = ScalarType::Float;
inline constexpr auto kHalf = ScalarType::Half;
inline constexpr auto kBFloat16 = ScalarType::BFloat16;
}  // namespace at
