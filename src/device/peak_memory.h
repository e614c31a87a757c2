// The largest amount of memory that this process has used.
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

/// The highest use so far of the memory that `device` computes in: allocated on a GPU, resident on the host.
int64_t peak_memory_bytes(c10::Device device);

}  // namespace ddpm::device
