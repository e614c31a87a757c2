// Whether operations take the way that they take on CUDA, which some share with CPUs in tests.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

/// While it lives, this thread computes on CPUs with the operations that it takes on CUDA.
class AsOnCuda {
 public:
  AsOnCuda();
  ~AsOnCuda();
  AsOnCuda(const AsOnCuda&) = delete;
  AsOnCuda& operator=(const AsOnCuda&) = delete;

 private:
  bool before_;
};

/// Whether x is on CUDA, or on the device that stands for it in tests (PrivateUse1), which has the same streams.
inline bool is_on_gpu(const at::Tensor& x) { return x.is_cuda() || x.is_privateuseone(); }

/// Whether x is on a GPU, or on a CPU in an AsOnCuda.
bool computes_as_on_cuda(const at::Tensor& x);

}  // namespace ddpm::nn
