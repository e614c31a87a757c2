#include "parallel/gradient_reducer.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

/// A model whose gradients are known: loss = Σ weight · factor, so the gradient is the factor everywhere.
struct Model {
  at::Tensor first;
  at::Tensor second;
  at::Tensor unused;
  ParameterArena arena{
      {{"first", {3, 2, 2, 2}, &first}, {"second", {5}, &second}, {"unused", {2}, &unused}}, at::kFloat, at::kCPU};

  void backward(double factor) { ((first * factor).sum() + (second * (2.0 * factor)).sum()).backward(); }
  at::Tensor gradient(std::size_t i) { return ParameterArena::view(arena.gradient(), arena.entries()[i]); }
};

TEST(GradientReducer, SumsMicroBatchesAndRanks) {
  comm::Communicator& world = test::world();
  for (const double bucket_mib : {1e-5, 25.0}) {
    Model model;
    GradientReducer reducer(model.arena, world, {.bucket_mib = bucket_mib});
    for (int step = 1; step <= 2; ++step) {  // a second step must not see the first one's sums
      reducer.begin_step();
      double expected = 0.0;
      for (int micro = 0; micro < 3; ++micro) model.backward(step * (10 * world.rank() + micro));
      for (int rank = 0; rank < world.size(); ++rank) expected += step * (30 * rank + 3);
      reducer.finalize();
      EXPECT_TRUE(at::equal(model.gradient(0), at::full({3, 2, 2, 2}, expected)));
      EXPECT_TRUE(at::equal(model.gradient(1), at::full({5}, 2.0 * expected)));
      EXPECT_TRUE(at::equal(model.gradient(2), at::zeros({2})));
    }
  }
}

TEST(GradientReducer, ClearsTheLeavesGradients) {
  Model model;
  GradientReducer reducer(model.arena, test::world(), {});
  reducer.begin_step();
  model.backward(1.0);
  EXPECT_FALSE(model.first.grad().defined());
}

TEST(GradientReducer, RemovesItsHooks) {
  Model model;
  { const GradientReducer reducer(model.arena, test::world(), {}); }
  model.backward(1.0);
  EXPECT_TRUE(model.first.grad().defined());
}

TEST(MakeBuckets, CoverTheBufferFromTheEndWithoutGaps) {
  Model model;
  for (const int64_t bytes : {int64_t{1}, int64_t{100}, int64_t{1} << 30}) {
    int64_t end = model.arena.size();
    for (const layout::Range& bucket : make_buckets(model.arena.entries(), model.arena.size(), bytes)) {
      EXPECT_EQ(bucket.end, end);
      EXPECT_LT(bucket.begin, bucket.end);
      end = bucket.begin;
    }
    EXPECT_EQ(end, 0);
  }
  EXPECT_EQ(make_buckets(model.arena.entries(), model.arena.size(), 1).size(), 3U);
}

}  // namespace
}  // namespace ddpm::parallel
