// The operators of optim/update_operators.h on CUDA tensors.
#include "optim/update_operators.h"

#include <algorithm>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/library.h>

#include "optim/cuda/update_launch.h"

namespace ddpm::optim {
namespace {

/// Returns the pieces that are not empty.
std::vector<SquaresBatch> batches_of(at::TensorList buffers) {
  std::vector<const float*> values;
  std::vector<int64_t> sizes;
  for (const at::Tensor& buffer : buffers) {
    if (buffer.numel() == 0) continue;
    values.push_back(buffer.const_data_ptr<float>());
    sizes.push_back(buffer.numel());
  }
  return squares_batches(values, sizes);
}

void sum_of_squares_cuda(at::TensorList buffers, int64_t replicas, const at::Tensor& sums) {
  const c10::cuda::CUDAGuard guard(sums.device());
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const std::vector<SquaresBatch> batches = batches_of(buffers);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const SquaresBatch& batch = batches[i];
    TORCH_CHECK(batch.runs <= kTreeRun, "a sum of squares over ", batch.blocks, " blocks");
    const at::Tensor block_sums = at::empty({batch.blocks}, sums.options());
    const at::Tensor run_sums = at::empty({batch.runs}, sums.options());
    auto* of_runs = run_sums.mutable_data_ptr<double>();
    start_squares(batch, block_sums.mutable_data_ptr<double>(), of_runs, stream);
    start_total_squares(batch, of_runs, i == 0, i + 1 == batches.size(), static_cast<double>(replicas),
                        sums.mutable_data_ptr<double>(), stream);
  }
}

void begin_update_cuda(const at::Tensor& record, const at::Tensor& scalars, const at::Tensor& schedule, bool whole,
                       double max_norm, bool dynamic, double min_scale, int64_t window, int64_t max_skips) {
  const c10::cuda::CUDAGuard guard(record.device());
  const UpdateRules rules{whole, max_norm, {dynamic, min_scale, window, max_skips}};
  const ScheduleRows rows{schedule.const_data_ptr<float>(), schedule.size(0), schedule.size(1)};
  start_begin_update(rules, rows, record.mutable_data_ptr<double>(), scalars.mutable_data_ptr<float>(),
                     c10::cuda::getCurrentCUDAStream());
}

/// Returns the pieces that are not empty, with `here` averages from number `first` on.
std::vector<UpdatePiece> update_pieces(const FlatUpdate& state, std::size_t first, std::size_t here) {
  std::vector<UpdatePiece> pieces;
  const std::size_t count = state.parameters.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (state.parameters[i].numel() == 0) continue;
    UpdatePiece piece{.parameter = state.parameters[i].mutable_data_ptr<float>(),
                      .gradient = state.gradients[i].const_data_ptr<float>(),
                      .exp_avg = state.exp_avg[i].mutable_data_ptr<float>(),
                      .exp_avg_sq = state.exp_avg_sq[i].mutable_data_ptr<float>(),
                      .average = {},
                      .working = state.working.empty() ? nullptr : state.working[i].mutable_data_ptr(),
                      .size = state.parameters[i].numel()};
    for (std::size_t k = 0; k < here; ++k) {
      piece.average[k] = state.averages[(first + k) * count + i].mutable_data_ptr<float>();
    }
    pieces.push_back(piece);
  }
  return pieces;
}

template <typename Working, bool kWeights>
void launch(const FlatUpdate& state, int first, int here, const float* scalars) {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const auto pieces = update_pieces(state, static_cast<std::size_t>(first), static_cast<std::size_t>(here));
  for (const UpdateBatch& batch : update_batches(pieces, here, first)) {
    start_flat_update<Working, kWeights>(batch, scalars, stream);
  }
}

void flat_update_cuda(const at::Tensor& scalars, at::TensorList parameters, at::TensorList gradients,
                      at::TensorList exp_avg, at::TensorList exp_avg_sq, at::TensorList averages,
                      at::TensorList working) {
  const c10::cuda::CUDAGuard guard(scalars.device());
  const FlatUpdate state{parameters, gradients, exp_avg, exp_avg_sq, averages, working};
  const auto* numbers = scalars.const_data_ptr<float>();
  const auto all = static_cast<int>(scalars.numel() - kScalarsSize);
  const int here = std::min(kMaxAverages, all);
  if (working.empty()) {
    launch<float, true>(state, 0, here, numbers);
  } else if (working[0].scalar_type() == at::kBFloat16) {
    launch<c10::BFloat16, true>(state, 0, here, numbers);
  } else {
    TORCH_CHECK(working[0].scalar_type() == at::kHalf, "working weights of ", working[0].scalar_type());
    launch<c10::Half, true>(state, 0, here, numbers);
  }
  for (int first = kMaxAverages; first < all; first += kMaxAverages) {
    launch<float, false>(state, first, std::min(kMaxAverages, all - first), numbers);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(ddpm, CUDA, m) {
  m.impl("sum_of_squares_", sum_of_squares_cuda);
  m.impl("begin_update_", begin_update_cuda);
  m.impl("flat_update_", flat_update_cuda);
}

}  // namespace ddpm::optim
