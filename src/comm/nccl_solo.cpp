#include "comm/nccl_solo.h"

#include <c10/cuda/CUDAGuard.h>

#include "comm/nccl_stream.h"

namespace ddpm::comm {

Work NcclSolo::copy(ConstBuffer in, Buffer out) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
  const cudaStream_t stream = current_stream(device_);
  if (in.count > 0 && in.data != out.data) {
    const std::size_t bytes = static_cast<std::size_t>(in.count) * base::size_of(in.dtype);
    check_cuda(cudaMemcpyAsync(out.data, in.data, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
  }
  // Whoever waits may do so on another stream.
  return Work(std::make_unique<StreamWork>(device_, stream));
}

}  // namespace ddpm::comm
