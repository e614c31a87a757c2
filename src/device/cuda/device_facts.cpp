#include "device/cuda/device_facts.h"

#include <array>
#include <stdexcept>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "comm/nccl_version.h"

namespace ddpm::device::cuda {
namespace {

void check(cudaError_t code, const char* operation) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(fmt::format("{}: {}", operation, cudaGetErrorString(code)));
}

/// 12040 is "12.4".
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

DeviceFacts::Gpu describe(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::array<char, 32> bus_id{};
  check(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device), "cudaDeviceGetPCIBusId");
  return {properties.name, bus_id.data(), static_cast<int64_t>(properties.totalGlobalMem),
          10 * properties.major + properties.minor};
}

int can_access(int device, int peer) {
  int can = 1;
  if (device != peer) check(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer");
  return can;
}

}  // namespace

bool describe_devices(DeviceFacts& facts, std::string& error) try {
  int driver = 0;
  int runtime = 0;
  int count = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  facts.driver = version_text(driver);
  facts.runtime = version_text(runtime);
  facts.nccl = comm::nccl_library_version();
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  for (int device = 0; device < count; ++device) {
    facts.gpus.push_back(describe(device));
    auto& row = facts.peer_access.emplace_back();
    for (int peer = 0; peer < count; ++peer) row.push_back(can_access(device, peer));
  }
  return true;
} catch (const std::exception& failure) {
  error = failure.what();
  return false;
}

}  // namespace ddpm::device::cuda
