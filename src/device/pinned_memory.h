// How much pinned host memory LibTorch takes for what it is asked for.
#pragma once

#include <bit>
#include <cstdint>

namespace ddpm::device {

/// What a tensor of `bytes` takes of it: LibTorch keeps blocks of powers of two, and gives none back by itself
/// (ATen/core/CachingHostAllocator.h).
constexpr int64_t pinned_bytes(int64_t bytes) {
  return bytes == 0 ? 0 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
}

}  // namespace ddpm::device
