#include "comm/gpu_memory.h"

#include <c10/cuda/CUDAGuard.h>

#include "comm/nccl_solo.h"
#include "comm/nccl_stream.h"

namespace ddpm::comm {
namespace {

class GpuMemory final : public DeviceMemory {
 public:
  explicit GpuMemory(int device) : device_(device) {}

  void finish() override {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
    check_cuda(cudaStreamSynchronize(current_stream(device_)), "cudaStreamSynchronize");
  }
  void read(const void* device, std::span<std::byte> host) override {
    copy(host.data(), device, host.size(), cudaMemcpyDeviceToHost);
  }
  void write(std::span<const std::byte> host, void* device) override {
    copy(device, host.data(), host.size(), cudaMemcpyHostToDevice);
  }
  [[nodiscard]] std::unique_ptr<Communicator> alone() override { return std::make_unique<NcclSolo>(device_); }

 private:
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, current_stream(device_)), "cudaMemcpyAsync");
    finish();
  }

  int device_;
};

}  // namespace

std::shared_ptr<DeviceMemory> open_gpu_memory(Communicator& host, int device) {
  expect_working_gpu(host, device);
  return std::make_shared<GpuMemory>(device);
}

}  // namespace ddpm::comm
