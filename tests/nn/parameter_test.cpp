// Parameters: storage order and initial values, whose distributions are compared with diffusers'.
#include "nn/parameter.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/golden_case.h"
#include "nn/unet2d.h"

namespace ddpm::nn::test {
namespace {

base::Json initial_statistics() {
  std::ifstream file(DDPM_TEST_DATA "/golden/initial_statistics.json");
  return base::Json::parse(file);
}

// Values of parameter `index` over as many seeds as diffusers was asked for.
std::vector<float> draw(const Parameter& p, int index, uint64_t seeds) {
  const auto elements = static_cast<std::size_t>(p.numel());
  std::vector<float> values(elements * seeds);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    initial_values(p, index, seed, std::span(values).subspan(seed * elements, elements));
  }
  return values;
}

struct Moments {
  double count, mean, std, min, max;
};

Moments moments_of(const std::vector<float>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0.0;
  double squares = 0.0;
  for (const float v : values) sum += v;
  for (const float v : values) squares += (v - sum / n) * (v - sum / n);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {n, sum / n, std::sqrt(squares / (n - 1)), *low, *high};
}

// Ours and theirs are samples of one distribution: mean and standard deviation agree within five standard errors (that
// of a normal's deviation, the wider one), and a uniform's extremes reach its bound.
void expect_same_distribution(const Parameter& p, const Moments& ours, const Moments& theirs) {
  if (p.init.kind == Init::Kind::constant) {
    EXPECT_EQ(ours.min, theirs.min);
    EXPECT_EQ(ours.max, theirs.max);
    return;
  }
  EXPECT_EQ(ours.count, theirs.count);
  const double standard_error = theirs.std * std::sqrt(2.0 / theirs.count);
  EXPECT_NEAR(ours.mean, theirs.mean, 5.0 * standard_error);
  EXPECT_NEAR(ours.std, theirs.std, 5.0 * standard_error / std::sqrt(2.0));
  if (p.init.kind != Init::Kind::uniform) return;
  const double bound = p.init.scale;
  for (const Moments& m : {ours, theirs}) {
    const double near_bound = bound * (1.0 - 2.0 * 12.0 / m.count);  // missed with probability e^-12
    EXPECT_LE(m.max, bound * (1.0 + 1e-7));
    EXPECT_GE(m.min, -bound * (1.0 + 1e-7));
    EXPECT_GT(m.max, near_bound);
    EXPECT_LT(m.min, -near_bound);
  }
}

TEST(InitialValues, AreDistributedAsInDiffusers) {
  const base::Json golden = initial_statistics();
  for (const auto& [name, configuration] : golden.at("configurations").items()) {
    const UNet2D unet(config_from_json(configuration.at("config")));
    ASSERT_EQ(unet.parameters().size(), configuration.at("parameters").size());
    int index = 0;
    for (const Parameter* p : unet.parameters()) {
      SCOPED_TRACE(name + ": " + p->name);
      const base::Json& row = configuration.at("parameters").at(p->name);
      const Moments theirs{row.at(0), row.at(1), row.at(2), row.at(3), row.at(4)};
      expect_same_distribution(*p, moments_of(draw(*p, index++, golden.at("seeds").get<uint64_t>())), theirs);
    }
  }
}

TEST(InitialValues, DependOnSeedAndIndexOnly) {
  const Parameter p{.name = "w", .shape = {6, 5}, .init = Init::fan_in(5)};
  std::vector<float> a(30), b(30);
  initial_values(p, 3, 7, a);
  initial_values({.name = "other", .shape = {30}, .init = p.init}, 3, 7, b);
  EXPECT_EQ(a, b);
  initial_values(p, 4, 7, b);
  EXPECT_NE(a, b);
  initial_values(p, 3, 8, b);
  EXPECT_NE(a, b);
}

TEST(Initialize, WritesLogicalOrderIntoChannelsLastStorage) {
  Parameter p{.name = "conv.weight", .shape = {4, 3, 2, 2}, .init = Init::fan_in(12)};
  Parameter* const only = &p;
  allocate({&only, 1}, at::kFloat);
  initialize({&only, 1}, 5);
  std::vector<float> values(48);
  initial_values(p, 0, 5, values);
  EXPECT_TRUE(at::equal(p.value, at::from_blob(values.data(), {4, 3, 2, 2})));
  EXPECT_TRUE(p.value.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_FALSE(p.value.is_contiguous());
}

TEST(ViewOf, RefusesStorageOfAnotherSize) {
  const Parameter p{.name = "conv.weight", .shape = {4, 3, 2, 2}};
  EXPECT_THROW(view_of(p, at::empty({47})), base::InternalError);
  const at::Tensor flat = at::arange(48, at::kFloat);
  EXPECT_EQ(view_of(p, flat).data_ptr(), flat.data_ptr());
}

}  // namespace
}  // namespace ddpm::nn::test
