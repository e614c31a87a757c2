// Stands for LibTorch's header: of all elements of a tensor at once. One is finite where its exponent has a bit that is
// 0.
#pragma once

#include <cstdint>
#include <cstring>

#include <ATen/core/Tensor.h>

namespace at {
struct Truth {
  bool value;
  [[nodiscard]] Truth all() const { return *this; }
  template <typename T>
  [[nodiscard]] T item() const {
    return value;
  }
};

template <typename Bits>
Truth all_have_zeros(const Tensor& tensor, Bits exponent) {
  const auto* bytes = static_cast<const char*>(tensor.const_data_ptr());
  for (std::size_t at = 0; at + sizeof(Bits) <= tensor.nbytes(); at += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, bytes + at, sizeof(Bits));
    if ((bits & exponent) == exponent) return {false};
  }
  return {true};
}

inline Truth isfinite(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case kDouble:
      return all_have_zeros<uint64_t>(tensor, 0x7ff0000000000000U);
    case kFloat:
      return all_have_zeros<uint32_t>(tensor, 0x7f800000U);
    case kHalf:
      return all_have_zeros<uint16_t>(tensor, 0x7c00U);
    default:
      return all_have_zeros<uint16_t>(tensor, 0x7f80U);
  }
}
}  // namespace at
