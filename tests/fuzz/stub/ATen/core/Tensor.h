// Stands for LibTorch's header where parsers of model files are fuzzed: they include headers that name a tensor, a
// device or a dtype in declarations. What reads weights makes tensors of bytes, too.
#pragma once

#include <cstddef>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace at {
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::size_t bytes, c10::ScalarType dtype) : bytes_(bytes), dtype_(dtype) {}
  void* mutable_data_ptr() { return bytes_.data(); }
  [[nodiscard]] const void* const_data_ptr() const { return bytes_.data(); }
  [[nodiscard]] c10::ScalarType scalar_type() const { return dtype_; }
  [[nodiscard]] std::size_t nbytes() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
  c10::ScalarType dtype_ = c10::ScalarType::Float;
};
using c10::Device;
inline constexpr auto kCPU = c10::DeviceType::CPU;
using c10::ScalarType;
inline constexpr auto kFloat = ScalarType::Float;
inline constexpr auto kDouble = ScalarType::Double;
inline constexpr auto kHalf = ScalarType::Half;
inline constexpr auto kBFloat16 = ScalarType::BFloat16;
}  // namespace at
