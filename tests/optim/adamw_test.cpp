// AdamW against torch.optim.AdamW in float32 and float64, and that no cut of a buffer changes a bit.
#include "optim/adamw.h"

#include <algorithm>

#include "config/resolve.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using optim::AdamWConfig;
using optim::AdamWStep;
using optim::OptimizerConfig;

struct Buffers {
  std::vector<float> parameter;
  std::vector<float> gradient;
  std::vector<float> exp_avg;
  std::vector<float> exp_avg_sq;

  explicit Buffers(std::size_t n)
      : parameter(random_floats(n, 1)), gradient(random_floats(n, 2)), exp_avg(random_floats(n, 3)), exp_avg_sq(n) {
    const auto roots = random_floats(n, 4);
    std::transform(roots.begin(), roots.end(), exp_avg_sq.begin(), [](float x) { return x * x; });
  }

  /// Updates elements [begin, end).
  void update(const AdamWConfig& config, const AdamWStep& step, std::size_t begin, std::size_t end) {
    const auto part = [&](std::vector<float>& all) { return std::span(all).subspan(begin, end - begin); };
    adamw_update(config, step, part(parameter), part(gradient), part(exp_avg), part(exp_avg_sq));
  }

  friend bool operator==(const Buffers&, const Buffers&) = default;
};

AdamWConfig adamw_config(const base::Json& golden) {
  return {.beta1 = golden.at("betas").at(0),
          .beta2 = golden.at("betas").at(1),
          .eps = golden.at("eps"),
          .weight_decay = golden.at("weight_decay")};
}

TEST(AdamW, FollowsTorchStepByStep) {
  for (const base::Json& golden : read_golden("adamw.json")) {
    const AdamWConfig config = adamw_config(golden);
    std::vector<float> parameter = floats(golden.at("start"));
    std::vector<float> exp_avg(parameter.size());
    std::vector<float> exp_avg_sq(parameter.size());
    for (std::size_t i = 0; i < golden.at("gradients").size(); ++i) {
      const AdamWStep step{.learning_rate = golden.at("lr"), .applied_step = static_cast<int64_t>(i) + 1};
      adamw_update(config, step, parameter, floats(golden.at("gradients").at(i)), exp_avg, exp_avg_sq);
      expect_close(parameter, floats(golden.at("parameters").at(i)), 1e-6, 1e-7);
    }
    expect_close(exp_avg, floats(golden.at("exp_avg")), 1e-5, 1e-16);
    expect_close(exp_avg_sq, floats(golden.at("exp_avg_sq")), 1e-5, 1e-30);

    // A few roundings of weights of size 2 (half a unit in the last place is 1.2e-7) away from exact arithmetic.
    const auto exact = golden.at("float64").get<std::vector<double>>();
    for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(parameter[i], exact[i], 2e-6) << "element " << i;
  }
}

TEST(AdamW, GradientScaleMultipliesTheGradient) {
  Buffers scaled(50);
  Buffers plain = scaled;
  for (float& g : scaled.gradient) g *= 1024.0F;
  scaled.update({}, {.learning_rate = 0.1, .applied_step = 3, .gradient_scale = 1.0 / 1024.0}, 0, 50);
  plain.update({}, {.learning_rate = 0.1, .applied_step = 3}, 0, 50);
  EXPECT_EQ(scaled.parameter, plain.parameter);
  EXPECT_EQ(scaled.exp_avg_sq, plain.exp_avg_sq);
}

TEST(AdamW, AnyCutGivesTheSameBits) {
  constexpr std::size_t kCount = 203;
  const AdamWStep step{.learning_rate = 0.01, .applied_step = 2, .gradient_scale = 0.37};
  Buffers whole(kCount);
  const Buffers start = whole;
  whole.update({}, step, 0, kCount);
  for (std::size_t cut = 0; cut <= kCount; ++cut) {
    Buffers parts = start;
    parts.update({}, step, 0, cut);
    parts.update({}, step, cut, kCount);
    ASSERT_EQ(parts, whole) << "cut at " << cut;
  }
  Buffers singles = start;
  for (std::size_t i = 0; i < kCount; ++i) singles.update({}, step, i, i + 1);
  EXPECT_EQ(singles, whole);
}

// Compiled for the least processor and without fused operations, this loop rounds as IEEE 754 says; so must the vector
// code.
TEST(AdamW, BitsAreThoseOfPlainArithmetic) {
  constexpr std::size_t kCount = 67;
  Buffers seen(kCount);
  Buffers wanted = seen;
  seen.update({}, {.learning_rate = 0.01, .applied_step = 1, .gradient_scale = 0.37}, 0, kCount);
  const auto one_minus_beta1 = static_cast<float>(1.0 - 0.95);
  const auto one_minus_beta2 = static_cast<float>(1.0 - 0.999);
  const auto step_size = static_cast<float>(0.01 / (1.0 - 0.95));
  const auto root_correction = static_cast<float>(std::sqrt(1.0 - 0.999));
  for (std::size_t i = 0; i < kCount; ++i) {
    const float g = wanted.gradient[i] * 0.37F;
    float& m = wanted.exp_avg[i];
    float& v = wanted.exp_avg_sq[i];
    m = m + one_minus_beta1 * (g - m);
    v = v * 0.999F + one_minus_beta2 * g * g;
    const float keep = static_cast<float>(1.0 - 0.01 * 1e-6);
    wanted.parameter[i] = wanted.parameter[i] * keep - step_size * (m / (std::sqrt(v) / root_correction + 1e-8F));
  }
  EXPECT_EQ(seen, wanted);
}

TEST(OptimizerConfig, RefusesAnythingButTwoBetas) {
  OptimizerConfig config;
  EXPECT_EQ(adamw_config(config).beta1, 0.95);
  config.betas = {0.9};
  EXPECT_THAT(message_of<base::ConfigError>([&] { validate(config); }), testing::HasSubstr("optimizer.betas has 1"));
}

TEST(OptimizerConfig, KeysReachTheUpdate) {
  OptimizerConfig config;
  config::Schema schema;
  config::Section section = schema.section("optimizer", "", config::Identity::fixed);
  describe(section, config);
  config::apply(schema, config::parse_toml("[optimizer]\nbetas = [0.8, 0.9]\neps = 1e-4\nweight_decay = 0.5", "t"),
                "t");
  const AdamWConfig adamw = adamw_config(config);
  EXPECT_EQ(adamw.beta1, 0.8);
  EXPECT_EQ(adamw.beta2, 0.9);
  EXPECT_EQ(adamw.eps, 1e-4);
  EXPECT_EQ(adamw.weight_decay, 0.5);
  EXPECT_THROW(config::apply(schema, config::parse_toml("[optimizer]\nbetas = [0.8, 1.0]", "t"), "t"),
               base::ConfigError);
  // A weight whose gradients have all been 0, as of LoRA's first update, would become 0/0.
  EXPECT_THROW(config::apply(schema, config::parse_toml("[optimizer]\neps = 0.0", "t"), "t"), base::ConfigError);
}

}  // namespace
}  // namespace ddpm::test
