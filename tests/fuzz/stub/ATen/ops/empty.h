// Stands for LibTorch's header: a tensor of bytes, of which the sanitizer sees where they end.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace at {
inline Tensor empty(const std::vector<int64_t>& shape, ScalarType dtype) {
  std::size_t bytes = dtype == kDouble ? 8 : dtype == kFloat ? 4 : 2;
  for (const int64_t side : shape) bytes *= static_cast<std::size_t>(side);
  return {bytes, dtype};
}
}  // namespace at
