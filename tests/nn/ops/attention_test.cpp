// Compares attention with its formula in float64.
#include "nn/ops/attention.h"

#include <array>
#include <cmath>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "nn/golden_case.h"
#include "nn/ops/cpu/kernels.h"
#include "nn/ops/threads.h"

namespace ddpm::nn::test {
namespace {

struct AttentionCase {
  int64_t images, heads, size, queries, keys;
};

std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.images << " x " << c.heads << " heads of " << c.size << ", " << c.queries << " queries, " << c.keys
             << " keys";
}

/// q, k, v and a gradient for the result.
using Inputs = std::array<at::Tensor, 4>;

Inputs inputs(const AttentionCase& c, at::ScalarType dtype = at::kFloat) {
  at::manual_seed(c.size * 1000 + c.keys);
  const auto random = [&](int64_t rows) { return at::randn({c.images, rows, c.heads * c.size}).to(dtype); };
  return {random(c.queries), random(c.keys), random(c.keys), random(c.queries)};
}

at::Tensor by_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads) {
  const auto split = [&](const at::Tensor& x) {
    return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
  };
  const int64_t size = q.size(2) / heads;
  const double root = std::sqrt(static_cast<double>(size));
  const at::Tensor p = at::softmax(at::matmul(split(q), split(k).transpose(2, 3)) / root, 3);
  return at::matmul(p, split(v)).transpose(1, 2).reshape(q.sizes());
}

/// The result, then the gradients of q, k and v.
using Results = std::array<at::Tensor, 4>;
constexpr std::array<const char*, 4> kNames = {"y", "dq", "dk", "dv"};

template <typename Operation>
Results run(const Operation& operation, const AttentionCase& c, const Inputs& in, at::ScalarType dtype) {
  std::array<at::Tensor, 3> leaves;
  for (std::size_t i = 0; i < 3; ++i) leaves[i] = in[i].detach().to(dtype).requires_grad_();
  const at::Tensor y = operation(leaves[0], leaves[1], leaves[2], c.heads);
  y.backward(in[3].to(dtype));
  return {y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

void expect_attention_near_float64(const AttentionCase& c, at::ScalarType dtype, double tolerance) {
  SCOPED_TRACE(testing::Message() << c << ", " << dtype);
  const Inputs in = inputs(c, dtype);
  const Results seen = run(attention, c, in, dtype);
  const Results wanted = run(by_formula, c, in, at::kDouble);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].scalar_type(), dtype) << kNames.at(i);
    EXPECT_EQ(seen[i].sizes(), wanted[i].sizes()) << kNames.at(i);
    EXPECT_TRUE(seen[i].is_contiguous()) << kNames.at(i);
    const double scale = std::max(1.0, wanted[i].abs().max().item<double>());
    const double error = (seen[i].to(at::kDouble) - wanted[i]).abs().max().item<double>() / scale;
    EXPECT_LT(error, tolerance) << kNames.at(i);
  }
}

void expect_attention_near_float64(const AttentionCase& c) {
  expect_attention_near_float64(c, at::kFloat, 2e-6);
  expect_attention_near_float64(c, at::kBFloat16, 0x1p-7);
}

TEST(Attention, AgreesWithFloat64ForAnySizeOfHead) {
  for (const int64_t size : {4, 8, 12, 16, 20, 24, 32, 40, 48, 64}) expect_attention_near_float64({2, 2, size, 36, 36});
}

TEST(Attention, AgreesWithFloat64ForSizesThatAtenTakes) {
  for (const int64_t size : {1, 3, 6, 128}) expect_attention_near_float64({2, 2, size, 20, 20});
}

TEST(Attention, AgreesWithFloat64ForAnyNumberOfPositions) {
  for (const int64_t positions : {1, 2, 3, 5, 15, 16, 17, 31, 33, 64, 65, 100, 256}) {
    expect_attention_near_float64({1, 3, 8, positions, positions});
  }
}

TEST(Attention, AgreesWithFloat64ForAnyNumberOfImagesAndHeads) {
  for (int64_t n = 1; n <= 5; ++n) expect_attention_near_float64({n, 6 - n, 8, 15, 15});
}

TEST(Attention, AgreesWithFloat64ForMoreKeysThanQueriesAndFewer) {
  expect_attention_near_float64({2, 2, 8, 16, 64});
  expect_attention_near_float64({2, 2, 16, 50, 7});
}

/// The result alone, in bfloat16.
void expect_inference_near_float64(const AttentionCase& c) {
  SCOPED_TRACE(testing::Message() << c);
  const Inputs in = inputs(c, at::kBFloat16);
  const at::Tensor seen = attention_inference(in[0], in[1], in[2], c.heads);
  const at::Tensor wanted = by_formula(in[0].to(at::kDouble), in[1].to(at::kDouble), in[2].to(at::kDouble), c.heads);
  EXPECT_EQ(seen.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(seen.is_contiguous());
  const double scale = std::max(1.0, wanted.abs().max().item<double>());
  EXPECT_LT((seen.to(at::kDouble) - wanted).abs().max().item<double>() / scale, 0x1p-7);
  // Rounding gives 1.7e-3 for the result and 1.1e-3 for the probabilities; of few numbers it may be more.
  const double error = ((seen.to(at::kDouble) - wanted).square().sum() / wanted.square().sum()).sqrt().item<double>();
  EXPECT_LT(error, c.keys == 1 ? 1e-9 : 3e-3);
}

TEST(AttentionInference, AgreesWithFloat64ForAnySizeOfHead) {
  for (const int64_t size : {4, 8, 12, 16, 20, 24, 32, 36, 40, 48, 64, 128}) {
    expect_inference_near_float64({2, 2, size, 36, 36});
  }
}

TEST(AttentionInference, AgreesWithFloat64ForAnyNumberOfPositions) {
  for (const int64_t queries : {1, 15, 16, 17, 100}) {
    for (const int64_t keys : {1, 2, 31, 32, 33, 127, 128, 129, 300}) {
      expect_inference_near_float64({1, 3, 8, queries, keys});
      expect_inference_near_float64({2, 1, 40, queries, keys});
    }
  }
}

TEST(AttentionInference, TakesScoresOfAnySize) {
  for (const double factor : {1e4, 1e15}) {
    const AttentionCase c{1, 2, 8, 40, 300};
    Inputs in = inputs(c, at::kBFloat16);
    in[0] *= factor;
    const at::Tensor wanted = by_formula(in[0].to(at::kDouble), in[1].to(at::kDouble), in[2].to(at::kDouble), c.heads);
    EXPECT_LT(relative_distance(attention_inference(in[0], in[1], in[2], c.heads), wanted), 1e-2) << factor;
  }
}

#if defined(__x86_64__)
/// What LDTILECFG reads and STTILECFG writes.
struct alignas(64) TileShapes {
  std::array<uint8_t, 64> bytes = {};
};

[[gnu::target("amx-tile")]] void set_tile_shapes(const TileShapes& shapes) {
  asm volatile("ldtilecfg %0" ::"m"(shapes));
}

[[gnu::target("amx-tile")]] TileShapes tile_shapes() {
  TileShapes shapes;
  asm volatile("sttilecfg %0" : "=m"(shapes));
  return shapes;
}

// LibTorch's own products of tiles give the registers other shapes.
TEST(AttentionInference, LeavesTheRegistersOfTilesToOthers) {
  const Threads one(1);  // registers are a thread's own
  const AttentionCase c{2, 4, 8, 64, 64};
  const Inputs in = inputs(c, at::kBFloat16);
  const auto attended = [&] { return attention_inference(in[0], in[1], in[2], c.heads); };
  const at::Tensor mixed = attended();
  if (cpu::tile_kernels() != nullptr) {
    TileShapes others;
    others.bytes[0] = 1;    // palette
    others.bytes[16] = 12;  // bytes in a row of the first tile
    others.bytes[48] = 5;   // and its rows
    set_tile_shapes(others);
    EXPECT_TRUE(at::equal(attended(), mixed));
    EXPECT_EQ(tile_shapes().bytes, others.bytes);
    set_tile_shapes({});
  }
  EXPECT_TRUE(at::equal(attended(), mixed));
}
#endif

TEST(AttentionInference, HasTheSameBitsInAnyBatchOnAnyNumberOfThreads) {
  const AttentionCase c{3, 5, 8, 70, 200};
  const Inputs in = inputs(c, at::kBFloat16);
  const auto with = [&](int threads) {
    const Threads scope(threads);
    return attention_inference(in[0], in[1], in[2], c.heads);
  };
  const at::Tensor wanted = with(1);
  for (const int threads : {2, 3}) EXPECT_TRUE(at::equal(with(threads), wanted)) << threads;
  for (int64_t n = 0; n < c.images; ++n) {
    const auto image = [&](std::size_t i) { return in[i].narrow(0, n, 1); };
    EXPECT_TRUE(at::equal(attention_inference(image(0), image(1), image(2), c.heads), wanted.narrow(0, n, 1))) << n;
  }
  // Nor on the queries beside one.
  const at::Tensor some = attention_inference(in[0].narrow(1, 21, 30).contiguous(), in[1], in[2], c.heads);
  EXPECT_TRUE(at::equal(some, wanted.narrow(1, 21, 30)));
}

// Blocks of keys that are summed first weigh as much as the last ones.
TEST(AttentionInference, WeighsManyKeysAlike) {
  constexpr int64_t kKeys = 8192;
  const at::Tensor q = at::ones({1, 16, 8}, at::kBFloat16);
  const at::Tensor k = at::ones({1, kKeys, 8}, at::kBFloat16);
  at::Tensor v = at::zeros({1, kKeys, 8}, at::kBFloat16);
  v.narrow(1, 0, kKeys / 2).fill_(1.0);
  const at::Tensor y = attention_inference(q, k, v, 1).to(at::kFloat);
  EXPECT_TRUE(at::equal(y, at::full_like(y, 0.5)));
}

TEST(AttentionInference, TakesTilesWhereTheProcessorHasThem) {
  const AttentionCase c{2, 3, 8, 33, 33};
  const Inputs in = inputs(c, at::kBFloat16);
  const at::Tensor drawn = attention_inference(in[0], in[1], in[2], c.heads);
  EXPECT_EQ(at::equal(drawn, attention(in[0], in[1], in[2], c.heads)), cpu::tile_kernels() == nullptr);
}

TEST(AttentionInference, IsTheSameOperationInFloat32) {
  const AttentionCase c{2, 3, 8, 33, 33};
  const Inputs in = inputs(c);
  EXPECT_TRUE(at::equal(attention_inference(in[0], in[1], in[2], c.heads), attention(in[0], in[1], in[2], c.heads)));
}

TEST(Attention, TakesTensorsOfAnyOrder) {
  const AttentionCase c{2, 4, 8, 20, 20};
  Inputs in = inputs(c);
  const Results wanted = run(attention, c, in, at::kFloat);
  in[3] = in[3].transpose(1, 2).contiguous().transpose(1, 2);
  const Results seen = run(attention, c, in, at::kFloat);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << kNames.at(i);
  const at::Tensor q = in[0].transpose(0, 1).contiguous().transpose(0, 1);
  EXPECT_LT(relative_distance(attention(q, in[1], in[2], c.heads), wanted[0]), 1e-6);
}

TEST(Attention, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const AttentionCase c{3, 5, 8, 70, 70};
    const Inputs in = inputs(c, dtype);
    const auto with = [&](int threads) {
      const Threads scope(threads);
      return run(attention, c, in, dtype);
    };
    const Results wanted = with(1);
    for (const int threads : {2, 3}) {
      const Results seen = with(threads);
      for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << kNames.at(i);
    }
  }
}

TEST(Attention, AnImageDoesNotDependOnItsBatch) {
  const AttentionCase c{3, 2, 8, 40, 40};
  const Inputs in = inputs(c);
  const at::Tensor y = attention(in[0], in[1], in[2], c.heads);
  for (int64_t n = 0; n < c.images; ++n) {
    const auto image = [&](std::size_t i) { return in[i].narrow(0, n, 1); };
    EXPECT_TRUE(at::equal(attention(image(0), image(1), image(2), c.heads), y.narrow(0, n, 1)));
  }
}

// Scores that float32's exponential cannot take, of both signs: the softmax is a choice of one key, the best one.
TEST(Attention, TakesScoresOfAnySize) {
  for (const double factor : {30.0, 1e4, 1e15}) {
    const AttentionCase c{1, 2, 8, 40, 40};
    Inputs in = inputs(c);
    in[0] *= factor;
    const Results seen = run(attention, c, in, at::kFloat);
    const Results wanted = run(by_formula, c, in, at::kDouble);
    EXPECT_LT(relative_distance(seen[0], wanted[0]), 1e-5 * std::min(factor, 1e3)) << factor;
    EXPECT_LT(relative_distance(seen[3], wanted[3]), 1e-5 * std::min(factor, 1e3)) << factor;
    for (const at::Tensor& t : seen) EXPECT_TRUE(t.isfinite().all().item<bool>()) << factor;
  }
}

TEST(Attention, EqualKeysShareEqually) {
  const AttentionCase c{1, 1, 8, 5, 48};
  Inputs in = inputs(c);
  in[1].fill_(-1e3);
  const at::Tensor y = attention(in[0], in[1], in[2], 1);
  EXPECT_LT(relative_distance(y, in[2].mean(1, true).expand_as(y)), 1e-6);
}

template <typename Operation>
void expect_nans_seen(const Operation& operation, at::ScalarType dtype, int64_t positions) {
  const AttentionCase c{2, 2, 8, positions, positions};
  for (std::size_t of = 0; of < 3; ++of) {
    const Inputs in = inputs(c, dtype);
    in[of][1][7][3] = std::numeric_limits<float>::quiet_NaN();
    const at::Tensor nans = operation(in[0], in[1], in[2], c.heads).isnan();
    EXPECT_FALSE(nans[0].any().item<bool>());
    EXPECT_FALSE(nans[1].narrow(1, 8, 8).any().item<bool>()) << "the other head";
    // A query's NaN stays in its row, a key's reaches all, a value's all in its channel.
    EXPECT_EQ(nans.sum().item<int64_t>(), of == 0 ? 8 : of == 1 ? positions * 8 : positions);
  }
}

TEST(Attention, ANaNIsNotHidden) {
  for (const int64_t positions : {20, 300}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) expect_nans_seen(attention, dtype, positions);
    expect_nans_seen(attention_inference, at::kBFloat16, positions);
  }
}

TEST(Attention, RefusesASecondDerivative) {
  const AttentionCase c{1, 1, 8, 4, 4};
  const Inputs in = inputs(c);
  in[0].requires_grad_();
  const at::Tensor y = attention(in[0], in[1], in[2], 1);
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {in[0]}, {}, {}, /*create_graph=*/true), base::InternalError);
}

}  // namespace
}  // namespace ddpm::nn::test
