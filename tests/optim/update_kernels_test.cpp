// The CUDA kernels of the update, on the CPU and on the grids of a GPU: equal bits to the loops of optim and to ATen's
// rounding, whatever the sizes, the alignment and the number of pieces and averages.
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "golden.h"
#include "optim/adamw.h"
#include "optim/ema.h"
#include "support/cuda_on_cpu.h"

// clang-format off: after what it uses of CUDA
#include "optim/cuda/update_kernels.cuh"
// clang-format on

namespace ddpm::test {
namespace {

using optim::AdamWConfig;
using optim::AdamWStep;

constexpr int64_t kBlock = optim::kNormBlock;

/// Tensors of the given sizes, each of which begins `offset` elements behind a 64-byte border.
struct Pieces {
  Pieces(const std::vector<int64_t>& sizes, int64_t offset, uint32_t seed, at::ScalarType type = at::kFloat) {
    for (const int64_t size : sizes) {
      const auto values = random_floats(static_cast<std::size_t>(size), seed++);
      tensors.push_back(at::empty({offset + size}, type).narrow(0, offset, size));
      for (int64_t i = 0; i < size && type == at::kFloat; ++i) {
        tensors.back().mutable_data_ptr<float>()[i] = values[static_cast<std::size_t>(i)];
      }
    }
  }
  std::vector<at::Tensor> tensors;
};

std::span<float> floats_of(const at::Tensor& flat) {
  return {flat.mutable_data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

/// sums[0..2] as the launches of optim/cuda/update.cu leave them.
std::vector<double> run_squares(const std::vector<at::Tensor>& pieces, double replicas) {
  std::vector<const float*> values;
  std::vector<int64_t> sizes;
  for (const at::Tensor& piece : pieces) {
    values.push_back(piece.const_data_ptr<float>());
    sizes.push_back(piece.numel());
  }
  std::vector<double> sums(3, -1.0);
  const auto batches = optim::squares_batches(values, sizes);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto& batch = batches[i];
    std::vector<double> blocks(static_cast<std::size_t>(batch.blocks));
    std::vector<double> runs(static_cast<std::size_t>(batch.runs));
    if (batch.count > 0) {
      cuda::launch(static_cast<unsigned>(optim::norm_grid(batch)), optim::kNormThreads,
                   [&] { optim::block_squares_kernel(batch, blocks.data()); });
      cuda::launch(static_cast<unsigned>(batch.runs), optim::kTreeThreads,
                   [&] { optim::run_tree_kernel(batch, blocks.data(), runs.data()); });
    }
    cuda::launch(1, optim::kTreeThreads, [&] {
      optim::total_squares_kernel(batch, runs.data(), i == 0, i + 1 == batches.size(), replicas, sums.data());
    });
  }
  return sums;
}

const std::vector<std::vector<int64_t>>& size_lists() {
  static const std::vector<std::vector<int64_t>> lists = {
      {1},        {15},          {16},
      {kBlock},   {kBlock + 1},  {3 * kBlock - 1, 5, 2 * kBlock},
      {4097, 17}, {70'001, 333}, std::vector<int64_t>(2 * optim::kMaxPieces + 3, 77)};
  return lists;
}

TEST(UpdateKernels, SumOfSquaresHasTheBitsOfTheHosts) {
  for (const auto& sizes : size_lists()) {
    for (const int64_t offset : {0, 1}) {
      const Pieces pieces(sizes, offset, 3);
      double wanted = 0.0;
      for (const at::Tensor& piece : pieces.tensors) wanted += optim::sum_of_squares(floats_of(piece));
      EXPECT_EQ(run_squares(pieces.tensors, 3.0), (std::vector<double>{wanted, wanted / 3.0, 0.0}));
    }
  }
  EXPECT_EQ(run_squares({}, 1.0), (std::vector<double>{0.0, 0.0, 0.0}));
}

TEST(UpdateKernels, SumOfSquaresOfMoreThanOneRunIsOneTree) {
  const Pieces pieces({optim::kTreeRun * kBlock + 3 * kBlock + 7, 100}, 0, 5);
  const double wanted =
      optim::sum_of_squares(floats_of(pieces.tensors[0])) + optim::sum_of_squares(floats_of(pieces.tensors[1]));
  EXPECT_EQ(run_squares(pieces.tensors, 1.0), (std::vector<double>{wanted, wanted, 0.0}));
}

TEST(UpdateKernels, SumOfSquaresTellsWhatIsNotFinite) {
  const std::vector<int64_t> sizes = {2 * kBlock + 5, 40, 3};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t piece : {0U, 1U, 2U}) {
      const Pieces pieces(sizes, 0, 7);
      floats_of(pieces.tensors[piece]).back() = bad;
      const auto sums = run_squares(pieces.tensors, 2.0);
      EXPECT_FALSE(std::isfinite(sums[0]));
      EXPECT_EQ(sums[1], 0.0);
      EXPECT_EQ(sums[2], 1.0);
    }
  }
  const Pieces largest({40}, 0, 7);
  for (float& value : floats_of(largest.tensors[0])) value = std::numeric_limits<float>::max();
  EXPECT_EQ(run_squares(largest.tensors, 1.0)[2], 0.0);
}

/// Everything that an update changes, and its gradients.
struct State {
  State(const std::vector<int64_t>& sizes, int64_t offset, std::size_t average_count, at::ScalarType working_type)
      : parameters(sizes, offset, 11),
        gradients(sizes, offset, 1000),
        exp_avg(sizes, offset, 2000),
        exp_avg_sq(sizes, offset, 3000),
        working(sizes, offset, 0, working_type) {
    for (at::Tensor& v : exp_avg_sq.tensors) v.mul_(v);
    for (std::size_t k = 0; k < average_count; ++k)
      averages.emplace_back(sizes, offset, static_cast<uint32_t>(4000 + 100 * k));
  }

  std::vector<optim::UpdatePiece> pieces(std::size_t first, std::size_t here, bool with_working) const {
    std::vector<optim::UpdatePiece> all;
    for (std::size_t i = 0; i < parameters.tensors.size(); ++i) {
      optim::UpdatePiece piece{parameters.tensors[i].mutable_data_ptr<float>(),
                               gradients.tensors[i].const_data_ptr<float>(),
                               exp_avg.tensors[i].mutable_data_ptr<float>(),
                               exp_avg_sq.tensors[i].mutable_data_ptr<float>(),
                               {},
                               with_working ? working.tensors[i].mutable_data_ptr() : nullptr,
                               parameters.tensors[i].numel()};
      for (std::size_t k = 0; k < here; ++k) {
        piece.average[k] = averages[first + k].tensors[i].mutable_data_ptr<float>();
      }
      all.push_back(piece);
    }
    return all;
  }

  Pieces parameters, gradients, exp_avg, exp_avg_sq, working;
  std::vector<Pieces> averages;
};

template <typename Working, bool kWeights>
void launch(const State& state, int first, int here, const std::vector<float>& scalars) {
  constexpr bool kHasWorking = !std::is_same_v<Working, float>;
  const auto pieces = state.pieces(static_cast<std::size_t>(first), static_cast<std::size_t>(here), kHasWorking);
  for (const auto& batch : optim::update_batches(pieces, here, first)) {
    cuda::launch(static_cast<unsigned>(batch.chunks), optim::kUpdateThreads,
                 [&] { optim::flat_update_kernel<Working, kWeights>(batch, scalars.data()); });
  }
}

/// The launches are those of optim/cuda/update.cu.
template <typename Working>
void run_update(const State& state, const std::vector<float>& scalars) {
  const auto all = static_cast<int>(state.averages.size());
  launch<Working, true>(state, 0, std::min(optim::kMaxAverages, all), scalars);
  for (int first = optim::kMaxAverages; first < all; first += optim::kMaxAverages) {
    launch<float, false>(state, first, std::min(optim::kMaxAverages, all - first), scalars);
  }
}

constexpr AdamWStep kStep{.learning_rate = 0.01, .applied_step = 7, .gradient_scale = 0.37};

std::vector<float> scalars_of(bool applies, std::size_t averages) {
  const optim::AdamWScalars s = optim::adamw_scalars(AdamWConfig{}, kStep);
  std::vector<float> scalars = {applies ? 1.0F : 0.0F, s.gradient_scale,  s.keep,
                                s.one_minus_beta1,     s.beta2,           s.one_minus_beta2,
                                s.step_size,           s.root_correction, s.eps};
  for (std::size_t k = 0; k < averages; ++k) scalars.push_back(0.1F * static_cast<float>(k + 1));
  return scalars;
}

void expect_same(const Pieces& seen, const Pieces& wanted, const char* what) {
  for (std::size_t i = 0; i < seen.tensors.size(); ++i) {
    EXPECT_TRUE(seen.tensors[i].equal(wanted.tensors[i])) << what << " of piece " << i;
  }
}

void update_on_host(const State& state, const std::vector<float>& scalars) {
  for (std::size_t i = 0; i < state.parameters.tensors.size(); ++i) {
    const auto weights = floats_of(state.parameters.tensors[i]);
    optim::adamw_update(AdamWConfig{}, kStep, weights, floats_of(state.gradients.tensors[i]),
                        floats_of(state.exp_avg.tensors[i]), floats_of(state.exp_avg_sq.tensors[i]));
    for (std::size_t k = 0; k < state.averages.size(); ++k) {
      optim::ema_kernel(scalars[9 + k], weights.size(), state.averages[k].tensors[i].mutable_data_ptr<float>(),
                        weights.data());
    }
    state.working.tensors[i].copy_(state.parameters.tensors[i]);
  }
}

template <typename Working>
void expect_update_of_host(at::ScalarType type) {
  // Aligned for vectors, not at all, and for 16 bytes but not more; fewer and more averages than one launch takes.
  const std::vector<std::pair<int64_t, std::size_t>> kinds = {{0, 1}, {3, 4}, {4, 6}, {0, 0}};
  for (const auto& sizes : size_lists()) {
    for (const auto& [offset, averages] : kinds) {
      SCOPED_TRACE(testing::Message() << sizes.size() << " pieces, the first of " << sizes.front() << ", offset "
                                      << offset << ", " << averages << " averages");
      const State seen(sizes, offset, averages, type);
      const State wanted(sizes, offset, averages, type);
      const auto scalars = scalars_of(true, averages);
      run_update<Working>(seen, scalars);
      update_on_host(wanted, scalars);
      expect_same(seen.parameters, wanted.parameters, "weights");
      expect_same(seen.exp_avg, wanted.exp_avg, "first moments");
      expect_same(seen.exp_avg_sq, wanted.exp_avg_sq, "second moments");
      for (std::size_t k = 0; k < averages; ++k) expect_same(seen.averages[k], wanted.averages[k], "averages");
      if (type != at::kFloat) expect_same(seen.working, wanted.working, "working weights");
    }
  }
}

TEST(UpdateKernels, Float32UpdateHasTheBitsOfTheHosts) { expect_update_of_host<float>(at::kFloat); }
TEST(UpdateKernels, Bfloat16UpdateHasTheBitsOfTheHosts) { expect_update_of_host<c10::BFloat16>(at::kBFloat16); }
TEST(UpdateKernels, Float16UpdateHasTheBitsOfTheHosts) { expect_update_of_host<c10::Half>(at::kHalf); }

TEST(UpdateKernels, NothingChangesWhereTheStepDoesNotApply) {
  const State seen({5000, 3}, 0, 6, at::kHalf);
  const State before({5000, 3}, 0, 6, at::kHalf);
  for (const State* state : {&seen, &before}) {
    for (const at::Tensor& piece : state->working.tensors) piece.fill_(0.5);
  }
  run_update<c10::Half>(seen, scalars_of(false, 6));
  expect_same(seen.parameters, before.parameters, "weights");
  expect_same(seen.exp_avg, before.exp_avg, "first moments");
  expect_same(seen.exp_avg_sq, before.exp_avg_sq, "second moments");
  expect_same(seen.working, before.working, "working weights");
  for (std::size_t k = 0; k < 6; ++k) expect_same(seen.averages[k], before.averages[k], "averages");
}

}  // namespace
}  // namespace ddpm::test
