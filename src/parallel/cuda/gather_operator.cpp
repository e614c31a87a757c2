// parallel/gather.h's operator on CUDA tensors.
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "base/check.h"
#include "parallel/cuda/gather.h"

namespace ddpm::parallel::cuda {
namespace {

GatherType type_of(const at::Tensor& run) {
  switch (run.scalar_type()) {
    case at::kFloat:
      return GatherType::float32;
    case at::kBFloat16:
      return GatherType::bfloat16;
    case at::kHalf:
      return GatherType::float16;
    default:
      throw base::InternalError("gradients of type {}", toString(run.scalar_type()));
  }
}

void gather(at::TensorList into, at::TensorList from, bool add) {
  std::vector<GatherPiece> pieces;
  std::vector<GatherType> types;
  for (std::size_t i = 0; i < into.size(); ++i) {
    DDPM_CHECK(into[i].numel() == from[i].numel() && into[i].is_contiguous() && from[i].is_contiguous(),
               "{} of {} elements", from[i].numel(), into[i].numel());
    pieces.push_back(
        {.from = from[i].const_data_ptr(), .into = into[i].mutable_data_ptr<float>(), .size = into[i].numel()});
    types.push_back(type_of(from[i]));
  }
  const c10::cuda::CUDAGuard guard(into.front().device());
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  for (const GatherBatch& batch : gather_batches(pieces, types, add)) start_gather(batch, stream);
}

TORCH_LIBRARY_IMPL(ddpm, CUDA, m) { m.impl("gather_", gather); }

}  // namespace
}  // namespace ddpm::parallel::cuda
