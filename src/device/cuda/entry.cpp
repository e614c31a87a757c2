// The one C function by which the program reaches libddpm_cuda.so.
#include <cuda_runtime_api.h>

#include "comm/gpu_memory.h"
#include "comm/nccl_communicator.h"
#include "device/cuda/device_facts.h"
#include "device/cuda/graph.h"
#include "device/device_library.h"

namespace {

int visible_devices(std::string& error) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess) return count;
  int driver = 0;  // stays 0 without a driver, which CUDA reports as a driver that is too old
  const bool no_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
  error = no_driver ? "no NVIDIA driver is installed" : cudaGetErrorString(code);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ddpm::device::DeviceFunctions* ddpm_cuda_functions() {
  static const ddpm::device::DeviceFunctions functions{
      .visible_devices = visible_devices,
      .make_communicator = ddpm::comm::create_nccl_communicator,
      .open_memory = ddpm::comm::open_gpu_memory,
      .communicator_failure = ddpm::comm::nccl_failure,
      .abort_communicators = ddpm::comm::abort_nccl_communicators,
      .make_graph = ddpm::device::cuda::make_graph,
      .describe_devices = ddpm::device::cuda::describe_devices,
  };
  return &functions;
}
