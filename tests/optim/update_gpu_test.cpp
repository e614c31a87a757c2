// The update's operators on CUDA tensors: equal bits to the same operators on CPU tensors, and ATen's own fused AdamW
// to rounding.
#include <algorithm>
#include <limits>

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include "golden.h"
#include "optim/update_operators.h"
#include "optim/update_schedule.h"

namespace ddpm::test {
namespace {

const at::Device kGpu(at::kCUDA, 0);
const optim::OptimizerConfig kOptimizer{.learning_rate = 2e-3, .weight_decay = 0.1, .max_grad_norm = 0.5};

/// Normal numbers, each piece `offset` elements behind the start of its memory.
std::vector<at::Tensor> make(const std::vector<int64_t>& sizes, int64_t offset, uint32_t seed,
                             at::ScalarType type = at::kFloat) {
  std::vector<at::Tensor> pieces;
  for (const int64_t size : sizes) {
    const auto values = random_floats(static_cast<std::size_t>(offset + size), seed++);
    const at::Tensor all = at::empty({offset + size}, at::TensorOptions().dtype(at::kFloat));
    std::ranges::copy(values, all.mutable_data_ptr<float>());
    pieces.push_back(all.to(type).narrow(0, offset, size));
  }
  return pieces;
}

/// Returns copies on the GPU, each with its piece's offset in memory.
std::vector<at::Tensor> on_gpu(const std::vector<at::Tensor>& pieces) {
  std::vector<at::Tensor> there;
  for (const at::Tensor& piece : pieces) {
    const int64_t offset = piece.storage_offset();
    there.push_back(at::empty({offset + piece.numel()}, piece.options().device(kGpu)).narrow(0, offset, piece.numel()));
    there.back().copy_(piece);
  }
  return there;
}

void expect_same(const std::vector<at::Tensor>& seen, const std::vector<at::Tensor>& wanted, const char* what) {
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(seen[i].cpu().equal(wanted[i])) << what << ", piece " << i;
}

const std::vector<std::vector<int64_t>>& size_lists() {
  static const std::vector<std::vector<int64_t>> lists = {
      {1}, {15}, {4096}, {4097, 17}, {1'000'003, 333}, std::vector<int64_t>(67, 777), {10'000'000}};
  return lists;
}

at::Tensor sums_of(const std::vector<at::Tensor>& pieces, at::Device device) {
  const at::Tensor sums = at::zeros({3}, at::TensorOptions().dtype(at::kDouble).device(device));
  optim::sum_of_squares_(pieces, 3, sums);
  return sums.cpu();
}

TEST(UpdateOnGpu, SumOfSquaresHasTheBitsOfTheCpus) {
  for (const auto& sizes : size_lists()) {
    for (const int64_t offset : {0, 1}) {
      const auto pieces = make(sizes, offset, 3);
      const auto seen = sums_of(on_gpu(pieces), kGpu);
      EXPECT_TRUE(seen.equal(sums_of(pieces, at::kCPU)));
      double squares = 0.0;
      for (const at::Tensor& piece : pieces) {
        const auto norm = at::linalg_vector_norm(piece, 2, {}, false, at::kDouble).item<double>();
        squares += norm * norm;
      }
      EXPECT_NEAR(seen[0].item<double>(), squares, 1e-12 * squares);
    }
  }
}

TEST(UpdateOnGpu, SumOfSquaresTellsWhatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto pieces = make({5000, 40}, 0, 7);
    pieces[1][39].fill_(bad);
    EXPECT_EQ(sums_of(on_gpu(pieces), kGpu)[2].item<double>(), 1.0);
  }
}

/// Records, scalars and rows of a device.
struct Numbers {
  Numbers(at::Device device, const optim::EmaConfig& ema)
      : record(at::zeros({optim::kRecordSize}, at::TensorOptions().dtype(at::kDouble).device(device))),
        scalars(at::zeros({optim::kScalarsSize + static_cast<int64_t>(ema.count())},
                          at::TensorOptions().dtype(at::kFloat).device(device))),
        schedule(kOptimizer, {.warmup_steps = 5}, ema, 100, device) {
    schedule.start(0);
    record.narrow(0, 0, 1).fill_(1024.0);
  }
  void step(double squares, bool finite) const {
    record.narrow(0, optim::kOwnSquares, 1).fill_(squares);
    record.narrow(0, optim::kSummed + 1, 1).fill_(finite ? 0.0 : 1.0);
    const optim::LossScaleRule rule{.dynamic = true, .min_scale = 256.0, .window = 4, .max_skips = 20};
    optim::begin_update_(record, scalars, schedule.rows(), {.whole = true, .max_norm = 0.5, .loss_scale = rule});
  }
  at::Tensor record, scalars;
  optim::UpdateSchedule schedule;
};

TEST(UpdateOnGpu, DecidesAsTheCpuDoes) {
  const optim::EmaConfig ema{.max_decay = {0.9, 0.999}};
  const Numbers gpu(kGpu, ema);
  const Numbers cpu(at::kCPU, ema);
  for (int step = 0; step < 60; ++step) {
    for (const Numbers* numbers : {&gpu, &cpu}) numbers->step(std::exp2(step), step < 50 ? step % 7 != 6 : false);
    ASSERT_TRUE(gpu.record.cpu().equal(cpu.record)) << "step " << step;
    ASSERT_TRUE(gpu.scalars.cpu().equal(cpu.scalars)) << "step " << step;
  }
  EXPECT_EQ(cpu.record[offsetof(optim::UpdateRecord, exhausted) / sizeof(double)].item<double>(), 1.0);
}

void expect_update_of_cpu(const std::vector<int64_t>& sizes, int64_t offset, std::size_t averages,
                          at::ScalarType working_type) {
  const optim::EmaConfig ema{.enabled = averages > 0, .max_decay = std::vector<double>(averages, 0.99)};
  const Numbers cpu(at::kCPU, ema);
  for (int step = 0; step < 6; ++step) cpu.step(step + 1.0, true);  // beyond a learning rate of 0
  const auto p = make(sizes, offset, 11), g = make(sizes, offset, 211), m = make(sizes, offset, 411);
  const auto v = make(sizes, offset, 611);
  for (const at::Tensor& piece : v) piece.mul_(piece);
  std::vector<at::Tensor> a;
  for (std::size_t k = 0; k < averages; ++k) {
    for (const at::Tensor& piece : make(sizes, offset, static_cast<uint32_t>(1000 * (k + 1)))) a.push_back(piece);
  }
  const bool mixed = working_type != at::kFloat;
  const auto w = mixed ? make(sizes, offset, 811, working_type) : std::vector<at::Tensor>{};
  const auto gpu_p = on_gpu(p), gpu_g = on_gpu(g), gpu_m = on_gpu(m), gpu_v = on_gpu(v), gpu_a = on_gpu(a);
  const auto gpu_w = on_gpu(w);
  optim::flat_update_(cpu.scalars.to(kGpu), {gpu_p, gpu_g, gpu_m, gpu_v, gpu_a, gpu_w});
  optim::flat_update_(cpu.scalars, {p, g, m, v, a, w});
  expect_same(gpu_p, p, "weights");
  expect_same(gpu_m, m, "first moments");
  expect_same(gpu_v, v, "second moments");
  expect_same(gpu_a, a, "averages");
  expect_same(gpu_w, w, "working weights");
}

TEST(UpdateOnGpu, UpdateHasTheBitsOfTheCpus) {
  for (const auto& sizes : size_lists()) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      expect_update_of_cpu(sizes, 0, 1, type);
      expect_update_of_cpu(sizes, 3, 0, type);
      expect_update_of_cpu(sizes, 4, 6, type);
    }
  }
}

TEST(UpdateOnGpu, FollowsFusedAdamW) {
  const Numbers gpu(kGpu, {.enabled = false});
  gpu.record.narrow(0, 0, 1).fill_(1.0);                      // loss scale
  for (int step = 0; step < 3; ++step) gpu.step(1e-4, true);  // the norm is not clipped
  const auto p = on_gpu(make({5001}, 0, 1)), g = on_gpu(make({5001}, 0, 2)), m = on_gpu(make({5001}, 0, 3));
  const auto v = on_gpu(make({5001}, 0, 4));
  v[0].mul_(v[0]);
  const std::vector<at::Tensor> wanted = {p[0].clone()}, wanted_m = {m[0].clone()}, wanted_v = {v[0].clone()};
  optim::flat_update_(gpu.scalars, {p, g, m, v, {}, {}});
  const at::Tensor applied = at::full({}, 3.0, p[0].options());
  at::_fused_adamw_(wanted, g, wanted_m, wanted_v, {}, {applied}, 2e-3 * 2 / 5, kOptimizer.betas[0],
                    kOptimizer.betas[1], kOptimizer.weight_decay, kOptimizer.eps, /*amsgrad=*/false,
                    /*maximize=*/false);
  EXPECT_TRUE(p[0].allclose(wanted[0], 1e-5, 1e-6));
  EXPECT_TRUE(m[0].allclose(wanted_m[0], 1e-5, 1e-6));
  EXPECT_TRUE(v[0].allclose(wanted_v[0], 1e-5, 1e-7));
}

}  // namespace
}  // namespace ddpm::test
