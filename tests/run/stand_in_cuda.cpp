// Takes the place of libddpm_cuda.so on a machine without CUDA: it can be opened, and offers nothing.
#include "device/device_library.h"

extern "C" __attribute__((visibility("default"))) const ddpm::device::DeviceFunctions* ddpm_cuda_functions() {
  static const ddpm::device::DeviceFunctions functions;
  return &functions;
}
