// A libddpm_cuda.so whose one GPU is older than bf16. It computes nothing, since the tested commands are refused
// before.
#include "device/device_library.h"

namespace {

int visible_devices(std::string& /*error*/) { return 1; }

bool describe_devices(ddpm::device::DeviceFacts& facts, std::string& /*error*/) {
  constexpr int64_t kMemory = int64_t{31} << 30;  // less than the data sheet says, as of every card
  facts.gpus.push_back(
      {.name = "Tesla V100-SXM2-32GB", .bus_id = "0000:18:00.0", .memory_bytes = kMemory, .capability = 70});
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ddpm::device::DeviceFunctions* ddpm_cuda_functions() {
  static const ddpm::device::DeviceFunctions functions{.visible_devices = visible_devices,
                                                       .describe_devices = describe_devices};
  return &functions;
}
