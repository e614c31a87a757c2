#include "comm/nccl_stream.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/collectives.h"

namespace ddpm::comm {

void check_cuda(cudaError_t code, const char* operation) {
  if (code != cudaSuccess) throw base::CommunicationError("{} failed: {}", operation, cudaGetErrorString(code));
}

void expect_working_gpu(Communicator& host, int device) {
  agree(host, [&] {
    check_cuda(cudaSetDevice(device), "cudaSetDevice");
    check_cuda(cudaFree(nullptr), "the first use of the GPU");
  });
}

void log_failure(bool failed, const char* operation) {
  if (failed) base::Logger(0, 1).error("{} failed", operation);
}

cudaStream_t current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

StreamWork::StreamWork(int device, cudaStream_t stream) : device_(device) {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
}

StreamWork::~StreamWork() { log_failure(cudaEventDestroy(event_) != cudaSuccess, "cudaEventDestroy"); }

bool StreamWork::test() {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaSuccess) return true;
  if (code != cudaErrorNotReady) check_cuda(code, "cudaEventQuery");
  (void)cudaGetLastError();  // "not ready" is an answer: later checks must not find it
  return false;
}

void StreamWork::wait() {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
  check_cuda(cudaStreamWaitEvent(current_stream(device_), event_, 0), "cudaStreamWaitEvent");
}

}  // namespace ddpm::comm
