#include "parallel/gradient_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "nn/ops/as_on_cuda.h"
#include "parallel/tree_reducer.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

comm::Communicator& world() { return test::world(); }

/// A model whose gradients are known: loss = Σ weight · factor, so the gradient is the factor everywhere.
struct Model {
  explicit Model(int64_t stage = 0) : arena(parameters(), at::kFloat, at::kCPU, sharding(stage)) {
    for (std::size_t unit = 0; stage == 3 && unit < 3; ++unit) arena.set_unit_present(unit, true);
  }

  std::vector<ArenaParameter> parameters() {
    return {{"first", {30, 20, 3, 3}, &first, 0}, {"second", {5}, &second, 1}, {"unused", {2}, &unused, 2}};
  }
  static Sharding sharding(int64_t stage) {
    return {.zero_stage = stage,
            .parts = stage == 0 ? 1 : world().size(),
            .index = stage == 0 ? 0 : world().rank(),
            .segment_elements = 1};
  }
  void backward(double factor) { ((first * factor).sum() + (second * (2.0 * factor)).sum()).backward(); }
  /// The gradient that the optimizer would see, as far as this rank keeps it: `expected` where there is an element.
  void expect_gradient(double expected) {
    const at::NoGradGuard no_grad;
    for (const auto& entry : arena.entries()) {
      const double factor = entry.name == "first" ? 1.0 : (entry.name == "second" ? 2.0 : 0.0);
      StateBuffer wanted = arena.make_state();
      arena.assign(wanted, entry, at::full(entry.shape, 1.0));
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_TRUE(at::equal(arena.gradient_pieces()[i] * wanted[i], wanted[i] * (factor * expected))) << entry.name;
      }
    }
  }

  at::Tensor first;
  at::Tensor second;
  at::Tensor unused;
  ParameterArena arena;
};

layout::Mesh mesh(int64_t stage) { return layout::Parallelism{.zero_stage = stage}.mesh(world().size()); }

void one_step(Model& model, GradientReducer& reducer, int step, int micro_batches) {
  reducer.begin_step();
  for (int micro = 0; micro < micro_batches; ++micro) {
    reducer.begin_micro_batch(micro + 1 == micro_batches);
    model.backward(step * (10 * world().rank() + micro));
    reducer.end_micro_batch();
  }
  reducer.finalize();
}

double expected_sum(int step, int micro_batches) {
  double sum = 0.0;
  for (int rank = 0; rank < world().size(); ++rank) {
    for (int micro = 0; micro < micro_batches; ++micro) sum += step * (10 * rank + micro);
  }
  return sum;
}

void expect_sums_in_every_stage() {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    for (const bool overlap : {true, false}) {
      Model model(stage);
      const GradientGroups groups(world(), mesh(stage));
      OverlappedReducer reducer(model.arena, groups, {.overlap = overlap});
      for (int step = 1; step <= 3; ++step) {  // a later step must not see an earlier one's sums
        one_step(model, reducer, step, 3);
        model.expect_gradient(expected_sum(step, 3));
      }
    }
  }
}

TEST(OverlappedReducer, SumsMicroBatchesAndRanksInEveryStage) {
  expect_sums_in_every_stage();
  const nn::AsOnCuda gradients_wait_for_others;
  expect_sums_in_every_stage();
}

TEST(OverlappedReducer, LargeGradientsDoNotWait) {
  const nn::AsOnCuda gradients_wait_for_others;
  const auto elements = static_cast<int64_t>(kWaitingGradientBytes / sizeof(float));
  at::Tensor small;
  at::Tensor large;
  ParameterArena arena({{"large", {elements}, &large, 0}, {"small", {4}, &small, 0}}, at::kFloat, at::kCPU,
                       {.segment_elements = 1});
  const GradientGroups groups(world(), mesh(0));
  OverlappedReducer reducer(arena, groups, {});
  const at::Tensor of_large = arena.gradient().narrow(0, arena.entries()[0].range.begin, elements);
  reducer.begin_step();
  reducer.begin_micro_batch(/*last=*/false);
  arena.gradient().fill_(7.0);
  small.sum().backward();
  EXPECT_TRUE(arena.gradient().eq(7.0).all().item<bool>()) << "a small gradient waits";
  large.sum().backward();
  EXPECT_TRUE(of_large.eq(1.0).all().item<bool>());
  reducer.end_micro_batch();
}

TEST(OverlappedReducer, CompressedSumsAreRoundedOnlyByTheirDtype) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    Model model(stage);
    const GradientGroups groups(world(), mesh(stage));
    OverlappedReducer reducer(model.arena, groups, {.compression = GradientCompression::bf16});
    one_step(model, reducer, 1, 2);  // sums of small integers are exact in bf16
    model.expect_gradient(expected_sum(1, 2));
  }
}

TEST(OverlappedReducer, ReportsEachSegmentOncePerMicroBatch) {
  Model model(3);
  const GradientGroups groups(world(), mesh(3));
  OverlappedReducer reducer(model.arena, groups, {});
  std::vector<std::size_t> complete;
  reducer.on_segment_complete([&](std::size_t segment) { complete.push_back(segment); });
  one_step(model, reducer, 1, 2);
  std::sort(complete.begin(), complete.end());
  EXPECT_EQ(complete, (std::vector<std::size_t>{0, 0, 1, 1}));  // unit 2 has no gradient
}

TEST(OverlappedReducer, ClearsTheLeavesGradients) {
  Model model;
  const GradientGroups groups(world(), mesh(0));
  OverlappedReducer reducer(model.arena, groups, {});
  one_step(model, reducer, 1, 1);
  EXPECT_FALSE(model.first.grad().defined());
}

TEST(OverlappedReducer, RemovesItsHooks) {
  Model model;
  const GradientGroups groups(world(), mesh(0));
  { const OverlappedReducer reducer(model.arena, groups, {}); }
  model.backward(1.0);
  EXPECT_TRUE(model.first.grad().defined());
}

TEST(TreeReducer, SumsOnPowersOfTwo) {
  if (world().size() == 3) return;  // refused by layout::refuse_combinations
  for (const int64_t stage : {0, 1}) {
    Model model(stage);
    const GradientGroups groups(world(), mesh(stage));
    TreeReducer reducer(model.arena, groups, /*tiles=*/1);
    for (int step = 1; step <= 2; ++step) {
      one_step(model, reducer, step, 4);
      model.expect_gradient(expected_sum(step, 4));
    }
  }
}

}  // namespace
}  // namespace ddpm::parallel
