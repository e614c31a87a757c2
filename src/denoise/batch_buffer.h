// The memory of a micro-batch on its way to a GPU. No LibTorch here: plans count it, too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/round_up.h"
#include "device/pinned_memory.h"
#include "layout/range.h"

namespace ddpm::denoise {

/// Where the parts of a batch lie in its buffer, in bytes: its step, and then the values of each field, each from where
/// 16 bytes can be read at once.
struct BatchBuffer {
  std::vector<layout::Range> values;
  int64_t end = sizeof(int64_t);

  explicit BatchBuffer(std::span<const int64_t> bytes_of_fields) {
    for (const int64_t bytes : bytes_of_fields) {
      const int64_t begin = base::round_up(end, 16);
      end = begin + bytes;
      values.push_back({begin, end});
    }
  }
};

/// Buffers of a stager whose caller has up to `in_use` batches: one more, for the batch that travels.
constexpr int64_t staged_batches(int64_t in_use) { return in_use + 1; }

/// The pinned memory of such a stager.
inline int64_t staged_bytes(const BatchBuffer& buffer, int64_t in_use) {
  return staged_batches(in_use) * device::pinned_bytes(buffer.end);
}

}  // namespace ddpm::denoise
