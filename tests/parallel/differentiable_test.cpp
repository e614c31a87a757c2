// The differentiable collectives are linear: the gradient g of L(x) = Σ over ranks of <w, f(x)> has <g, u> = L(u) for
// every u, which is checked in float64.
#include "parallel/differentiable.h"

#include <array>
#include <vector>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

at::Tensor numbers(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

/// `f` is linear; `x` differs from rank to rank.
template <typename Function>
void expect_adjoint(const at::Tensor& x, const Function& f) {
  comm::Communicator& world = ddpm::test::world();
  const at::Tensor leaf = x.clone().requires_grad_();
  const at::Tensor y = f(leaf);
  const at::Tensor w = numbers(y.sizes());
  (y * w).sum().backward();
  const at::Tensor u = numbers(x.sizes());
  const double wanted = comm::all_reduce(world, (f(u) * w).sum().template item<double>(), comm::ReduceOp::sum);
  const double got = comm::all_reduce(world, (leaf.grad() * u).sum().template item<double>(), comm::ReduceOp::sum);
  EXPECT_NEAR(got, wanted, 1e-12 * (1.0 + std::abs(wanted)));
}

class Differentiable : public testing::Test {
 protected:
  Differentiable() { at::manual_seed(17 + static_cast<uint64_t>(world_.rank())); }

  /// All ranks in a ring, or in a row.
  [[nodiscard]] Neighbours neighbours(bool ring) const {
    const int64_t rank = world_.rank();
    const int64_t size = world_.size();
    return {.before = rank > 0 ? rank - 1 : ring ? size - 1 : -1, .after = rank + 1 < size ? rank + 1 : ring ? 0 : -1};
  }

  comm::Communicator& world_ = ddpm::test::world();
};

TEST_F(Differentiable, SumIsThatOfAllRanks) {
  const at::Tensor x = at::full({2, 3}, static_cast<double>(world_.rank() + 1), at::kDouble);
  const double all = 0.5 * world_.size() * (world_.size() + 1);
  EXPECT_TRUE(at::equal(sum_over(x, world_), at::full({2, 3}, all, at::kDouble)));
  expect_adjoint(numbers({2, 3}), [&](const at::Tensor& t) { return sum_over(t, world_); });
}

TEST_F(Differentiable, WhatIsSpreadGathersGradients) {
  at::Tensor x = at::full({2, 3}, 5.0, at::kDouble).requires_grad_();
  const at::Tensor y = spread_over(x, world_);
  EXPECT_TRUE(at::equal(y, x));
  (y * static_cast<double>(world_.rank() + 1)).sum().backward();
  EXPECT_TRUE(x.grad().eq(0.5 * world_.size() * (world_.size() + 1)).all().item<bool>());
}

TEST_F(Differentiable, WhatIsReducedHandsGradientsOn) {
  at::Tensor x = at::full({2, 3}, static_cast<double>(world_.rank() + 1), at::kDouble).requires_grad_();
  const at::Tensor y = reduce_over(x, world_);
  EXPECT_TRUE(y.eq(0.5 * world_.size() * (world_.size() + 1)).all().item<bool>());
  (y * 3.0).sum().backward();
  EXPECT_TRUE(x.grad().eq(3.0).all().item<bool>());
}

TEST_F(Differentiable, GatherTakesUnequalParts) {
  std::vector<int64_t> extents;
  int64_t before = 0;
  for (int rank = 0; rank < world_.size(); ++rank) {
    extents.push_back(2 + rank);
    if (rank < world_.rank()) before += 2 + rank;
  }
  const at::Tensor x = numbers({2, extents[static_cast<std::size_t>(world_.rank())], 3});
  const at::Tensor all = gather_over(x, extents, world_);
  EXPECT_TRUE(at::equal(all.narrow(1, before, x.size(1)), x));
  expect_adjoint(x, [&](const at::Tensor& t) { return gather_over(t, extents, world_); });
}

TEST_F(Differentiable, MarginsAreTheNeighboursPixels) {
  for (const bool ring : {false, true}) {
    const auto numbered = [&](int64_t rank) { return at::full({1, 2, 3, 4}, static_cast<double>(rank), at::kDouble); };
    const Neighbours beside = neighbours(ring);
    const at::Tensor wide = with_margins(numbered(world_.rank()), std::array{Side{-2, {2, 1}, beside}}, world_);
    ASSERT_EQ(wide.sizes(), (std::vector<int64_t>{1, 2, 6, 4}));
    const double above = beside.before < 0 ? 0.0 : static_cast<double>(beside.before);
    const double below = beside.after < 0 ? 0.0 : static_cast<double>(beside.after);
    EXPECT_TRUE(wide.narrow(2, 0, 2).eq(above).all().item<bool>());
    EXPECT_TRUE(at::equal(wide.narrow(2, 2, 3), numbered(world_.rank())));
    EXPECT_TRUE(wide.narrow(2, 5, 1).eq(below).all().item<bool>());
  }
}

TEST_F(Differentiable, MarginsOfSeveralSidesHaveTheirGradients) {
  const Neighbours ring = neighbours(true);
  const std::array sides = {Side{-2, {2, 1}, ring}, Side{-1, {1, 2}, ring}, Side{-3, {1, 1}, neighbours(false)}};
  const at::Tensor x = numbers({2, 3, 2, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast3d);
  at::Tensor one_by_one = x;
  for (const Side& side : sides) one_by_one = with_margins(one_by_one, std::array{side}, world_);
  EXPECT_TRUE(at::equal(with_margins(x, sides, world_), one_by_one));
  expect_adjoint(x, [&](const at::Tensor& t) { return with_margins(t, sides, world_); });
}

TEST_F(Differentiable, MarginsHaveTheirGradients) {
  for (const bool ring : {false, true}) {
    for (const Margin margin : {Margin{1, 1}, Margin{0, 1}, Margin{2, 0}}) {
      for (const int64_t dim : {-1, -2, -3}) {
        expect_adjoint(numbers({2, 3, 2, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast3d), [&](const at::Tensor& t) {
          return with_margins(t, std::array{Side{dim, margin, neighbours(ring)}}, world_);
        });
      }
    }
  }
}

}  // namespace
}  // namespace ddpm::parallel
