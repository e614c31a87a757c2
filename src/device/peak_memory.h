// How much memory this process uses, and has used at most.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

namespace ddpm::device {

/// Highest resident memory of this process so far.
int64_t peak_resident_bytes();

/// The most memory of a device that LibTorch's allocator has given out so far, and the most that it has reserved for
/// that; 0 for the host.
struct DevicePeak {
  int64_t allocated = 0;
  int64_t reserved = 0;
};
DevicePeak peak_of_device(c10::Device device);

/// Bytes of now, and the most so far: resident on the host, and given out by LibTorch's allocator on a device (0 for
/// the host).
struct MemoryUse {
  int64_t host = 0;
  int64_t host_peak = 0;
  int64_t device = 0;
  int64_t device_peak = 0;
};
MemoryUse memory_use(c10::Device device);

/// The highest use so far of the memory that `device` computes in: allocated on a GPU, resident on the host.
int64_t peak_memory_bytes(c10::Device device);

}  // namespace ddpm::device
