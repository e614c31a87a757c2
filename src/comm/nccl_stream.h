// What the communicators over device memory need of CUDA's streams. Compiled into libddpm_cuda.so only.
#pragma once

#include <cuda_runtime_api.h>

#include "comm/communicator.h"

namespace ddpm::comm {

/// Throws CommunicationError unless `code` is cudaSuccess.
void check_cuda(cudaError_t code, const char* operation);

/// A GPU that does not work fails here, on all ranks of `host` together, rather than leave the others waiting for one.
/// Collective.
void expect_working_gpu(Communicator& host, int device);

/// What a destructor does about a failure.
void log_failure(bool failed, const char* operation);

/// The calling thread's current stream of `device`.
cudaStream_t current_stream(int device);

/// A point of a stream: what the stream was given before is done there. wait() has the current stream wait for it.
class StreamWork : public Work::Impl {
 public:
  StreamWork(int device, cudaStream_t stream);
  ~StreamWork() override;
  StreamWork(const StreamWork&) = delete;
  StreamWork& operator=(const StreamWork&) = delete;

  bool test() override;
  void wait() override;

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace ddpm::comm
