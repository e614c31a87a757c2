// Keys in another order: the same bits, and what attention without that order computes.
#include "nn/ops/key_order.h"

#include <array>

#include <ATen/ops/argsort.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/golden_case.h"
#include "nn/ops/attention.h"

namespace ddpm::nn::test {
namespace {

constexpr int64_t kKeyHeads = 3;

struct QueriesKeysValues {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

/// Some keys are alike but for their values, and some pairs of both are alike.
QueriesKeysValues some_keys_alike() {
  at::manual_seed(8);
  QueriesKeysValues in{at::randn({2, 40, 24}), at::randn({2, 100, 24}), at::randn({2, 100, 24})};
  in.k.slice(1, 10, 20).copy_(in.k.slice(1, 50, 60));
  in.k.slice(1, 20, 30).copy_(in.k.slice(1, 70, 80));
  in.v.slice(1, 20, 30).copy_(in.v.slice(1, 70, 80));
  return in;
}

at::Tensor attend_in_order(const QueriesKeysValues& in) {
  const auto [k, v] = in_order_of_keys(in.k, in.v, kKeyHeads);
  return attention(in.q, k, v, kKeyHeads);
}

TEST(KeyOrder, ShuffledKeysGiveTheSameBits) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    QueriesKeysValues in = some_keys_alike();
    for (at::Tensor* const x : {&in.q, &in.k, &in.v}) *x = x->to(dtype);
    const at::Tensor shuffle = at::argsort(at::rand({100}));
    const QueriesKeysValues shuffled{in.q, in.k.index_select(1, shuffle), in.v.index_select(1, shuffle)};
    EXPECT_TRUE(at::equal(attend_in_order(shuffled), attend_in_order(in))) << dtype;
  }
}

TEST(KeyOrder, ChangesOnlyTheOrder) {
  const QueriesKeysValues in = some_keys_alike();
  std::array<at::Tensor, 3> leaves;
  const auto results = [&](bool ordered) {
    leaves = {in.q.clone(), in.k.clone(), in.v.clone()};
    for (at::Tensor& leaf : leaves) leaf.set_requires_grad(true);
    const QueriesKeysValues given{leaves[0], leaves[1], leaves[2]};
    const at::Tensor y = ordered ? attend_in_order(given) : attention(given.q, given.k, given.v, kKeyHeads);
    torch::autograd::backward({y}, {in.q});
    return std::array{y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  const auto seen = results(true);
  const auto wanted = results(false);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_LT(relative_error(seen[i], wanted[i]), 1e-6) << i;
}

}  // namespace
}  // namespace ddpm::nn::test
