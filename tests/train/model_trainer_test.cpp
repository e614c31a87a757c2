// What ModelTrainer computes, in every stage, against the same training by hand.
#include <cmath>

#include <ATen/Functions.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "comm/collectives.h"
#include "optim/clip.h"
#include "support/mpi_test.h"
#include "train/model_trainer_case.h"

namespace ddpm::train::test {
namespace {

void expect_near(const Result& a, const Result& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * b.losses[i]) << "step " << i;
    EXPECT_NEAR(a.norms[i], b.norms[i], 10 * tolerance * b.norms[i]) << "step " << i;
  }
  for (const auto& [name, value] : a.weights) {
    EXPECT_LE((value - b.weights.at(name)).norm().item<double>(), tolerance * value.norm().item<double>()) << name;
  }
}

/// Repeats the training by whole batches, autograd and AdamW's formula.
Result by_hand(int64_t steps) {
  Model model;
  Result result;
  std::vector<at::Tensor> all = {model.linear, model.conv, model.bias};
  std::vector<at::Tensor> first, second;
  for (at::Tensor& p : all) {
    p.set_requires_grad(true);
    first.push_back(at::zeros_like(p));
    second.push_back(at::zeros_like(p));
  }
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor loss = (model.head(model.body(images({step, 0, kGlobalSize}))) - 0.3).square().mean();
    loss.backward();
    const at::NoGradGuard no_grad;
    double squares = 0.0;
    for (const at::Tensor& p : all) squares += p.grad().square().sum().item<double>();
    result.losses.push_back(loss.item<double>());
    result.norms.push_back(std::sqrt(squares));
    const double clip = optim::clip_coefficient(result.norms.back(), 1.0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const at::Tensor g = all[i].grad() * clip;
      all[i].mul_(1 - 1e-2 * 1e-6);
      first[i].mul_(0.95).add_(g, 0.05);
      second[i].mul_(0.999).add_(g.square(), 0.001);
      const auto t = static_cast<double>(step + 1);
      const at::Tensor root = (second[i] / (1 - std::pow(0.999, t))).sqrt() + 1e-4;
      all[i].sub_(1e-2 / (1 - std::pow(0.95, t)) * first[i] / root);
      all[i].mutable_grad().reset();
    }
  }
  result.weights = {{"head.weight", model.linear}, {"body.conv", model.conv}, {"head.bias", model.bias}};
  return result;
}

TEST(ModelTrainer, TrainsAsAutogradAndAdamWByHandInEveryStage) {
  const Result wanted = by_hand(6);
  for (const auto& units : {std::vector<std::string>{}, {"body", "head"}}) {
    for (int64_t stage = 0; stage <= 3; ++stage) {
      const Case chosen{.stage = stage, .units = units};
      SCOPED_TRACE(chosen.text());
      const ddpm::test::TemporaryFolder folder;
      Result result = train(chosen, shared_folder(folder) / "run");
      result.weights.erase("body.scale");
      result.weights.erase("calls");
      expect_near(result, wanted, 1e-5);
      comm::barrier(world());
    }
  }
}

TEST(ModelTrainer, MixedPrecisionIsTheSameInEveryStage) {
  for (const char* precision : {"bf16", "fp16"}) {
    const ddpm::test::TemporaryFolder folder;
    const base::Path path = shared_folder(folder);
    const Result wanted = train({.precision = precision}, path / "0");
    EXPECT_NEAR(wanted.losses.back(), by_hand(6).losses.back(), 0.05 * wanted.losses.back());
    for (int64_t stage = 1; stage <= 3; ++stage) {
      const Case chosen{.stage = stage, .units = {"body", "head"}, .precision = precision};
      SCOPED_TRACE(chosen.text());
      expect_near(train(chosen, path / std::to_string(stage)), wanted, 1e-2);
    }
    comm::barrier(world());
  }
}

TEST(ModelTrainer, ResumesInAnotherStageWithConstants) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder);
  const Result wanted = train({.stage = 0}, path / "unbroken");
  const Result first = train({.stage = 3, .every = 2}, path / "broken", 3);
  EXPECT_FALSE(first.resumed);
  const Result second = train({.stage = 1, .every = 2}, path / "broken");
  EXPECT_TRUE(second.resumed);
  ASSERT_EQ(second.losses.size(), 4U) << "steps 3 to 6: step 3 was not saved";
  EXPECT_NEAR(second.losses.back(), wanted.losses.back(), 1e-5 * wanted.losses.back());
  EXPECT_EQ(second.calls, wanted.calls) << "a counter that is no parameter, 0-dimensional, of integers";
  const Result third = train({.stage = 2}, path / "broken");
  EXPECT_TRUE(third.resumed);
  EXPECT_TRUE(third.losses.empty()) << "all steps were done";
  comm::barrier(world());
}

// The order of the parameters, and with it that in which the gradient's norm is summed, follows from the units.
TEST(ModelTrainer, ReproducibleRunsAgreeInEveryBit) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder);
  const std::vector<std::string> units = {"body", "head"};
  const Result a = train({.units = units, .reproducible = true}, path / "a");
  const Result b = train({.stage = 1, .units = units, .reproducible = true}, path / "b");
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  const Result without_units = train({.reproducible = true}, path / "c");
  EXPECT_EQ(a.losses, without_units.losses);
  for (const auto& [name, weight] : a.weights) {
    EXPECT_TRUE(at::equal(weight, b.weights.at(name))) << name;
    EXPECT_TRUE(at::equal(weight, without_units.weights.at(name))) << name << ": no norm was clipped";
  }
  comm::barrier(world());
}

TEST(ModelTrainer, KeepsConstantsInTheirOwnType) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder) / "run";
  const base::Logger log(1, world().size());
  const auto files = base::posix_file_system();
  const auto constants = [](int64_t n, double x, bool b) {
    constexpr auto kConstant = base::ParameterRole::constant;
    return std::vector<OwnTensor>{{"n", at::full({2}, n, at::kLong), kConstant},
                                  {"x", at::full({}, x, at::kDouble), kConstant},
                                  {"b", at::full({3}, b, at::kBool), kConstant}};
  };
  for (const bool first : {true, false}) {
    TrainerConfiguration configuration;
    configure(configuration, {.steps = 2, .every = 1}, path);
    const Model model;
    OwnModel own = model.own();
    // The second program begins with other values, which the checkpoint replaces.
    const std::vector<OwnTensor> added = first ? constants(16777217, 0.1, true) : constants(0, 0.0, false);
    own.tensors.insert(own.tensors.end(), added.begin(), added.end());
    ModelTrainer trainer(configuration, {session(), *files, log}, own);
    EXPECT_EQ(trainer.resume(), !first);
    const auto loss = [&](const MicroBatchPosition&) { return model.head(model.conv.sum({1, 2, 3})).sum(); };
    if (first) {
      (void)trainer.step(loss);
      trainer.save();
    }
    EXPECT_EQ(added[0].value[1].item<int64_t>(), 16777217);
    EXPECT_EQ(added[1].value.item<double>(), 0.1);
    EXPECT_TRUE(added[2].value.all().item<bool>());
    comm::barrier(world());
  }
}

/// A run with "body.scale" frozen, saved after each step; its values begin with `scale`.
void train_with_frozen_scale(const std::string& precision, double scale, const base::Path& path) {
  const base::Logger log(1, world().size());
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {.stage = 3, .precision = precision, .steps = 4, .every = 1}, path);
  Model model;
  model.scale.fill_(scale);
  OwnModel own = model.own();
  own.tensors[3].role = base::ParameterRole::frozen;
  ModelTrainer trainer(configuration, {session(), *files, log}, own);
  const bool resumed = trainer.resume();
  for (int i = 0; i < 2; ++i) {
    (void)trainer.step([&](const MicroBatchPosition& p) {
      EXPECT_EQ(model.scale.scalar_type(), trainer.compute_dtype());
      return model.head(model.body(images(p).to(trainer.compute_dtype()))).to(at::kFloat).square().sum();
    });
  }
  EXPECT_EQ(resumed, scale == 0.0);
  EXPECT_FALSE(model.scale.requires_grad());
  EXPECT_FALSE(model.scale.grad().defined());
  const std::map<std::string, at::Tensor> weights = trainer.weights({.ema = 0});
  if (world().rank() != 0) return;
  EXPECT_TRUE(weights.at("body.scale").eq(at::full({}, 1.1)).all().item<bool>()) << "float32, whatever forward sees";
}

TEST(ModelTrainer, FrozenTensorsHaveTheComputeDtypeAndKeepTheirValues) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder);
  for (const std::string precision : {"no", "bf16"}) {
    train_with_frozen_scale(precision, 1.1, path / precision);
    train_with_frozen_scale(precision, 0.0, path / precision);  // resumes, and takes the checkpoint's values
    comm::barrier(world());
  }
}

/// Three units, the second of which has two outputs that the third takes.
struct Fork {
  at::Tensor a = values({kWidth, kWidth}, 0.7);
  at::Tensor b = values({kWidth, kWidth}, 0.9);
  at::Tensor c = values({1, kWidth}, 1.1);
  at::Tensor scale = at::full({}, 0.5);
  [[nodiscard]] OwnModel own() const {
    return {{{"a.w", a}, {"b.w", b}, {"c.w", c}, {"scale", scale}}, {"scale", "a", "b", "c"}};
  }
};

std::vector<double> train_fork(int64_t stage, bool overlap, const base::Path& path) {
  const base::Logger log(1, world().size());
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  Case chosen{.stage = stage, .steps = 4};
  configuration.values().parallel.overlap = overlap;
  configure(configuration, chosen, path);
  const Fork model;
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own());
  trainer.resume();
  std::vector<double> losses;
  while (!trainer.done()) {
    losses.push_back(trainer
                         .step([&](const MicroBatchPosition& p) {
                           const at::Tensor x = values({p.count, kWidth}, 0.1 + static_cast<double>(p.first));
                           using Outputs = std::vector<at::Tensor>;
                           const at::Tensor y = trainer.run_unit("scale", [&] { return x * model.scale; });
                           const at::Tensor z = trainer.run_unit("a", [&] { return at::tanh(at::linear(y, model.a)); });
                           const Outputs two = trainer.run_unit("b", [&] {
                             const at::Tensor h = at::linear(z, model.b);
                             return Outputs{at::tanh(h), at::sigmoid(h)};
                           });
                           const at::Tensor out =
                               trainer.run_unit("c", [&] { return at::linear(two[0] * two[1], model.c); });
                           return (out - 0.3).square().sum();
                         })
                         .loss);
  }
  double sum = 0.0;
  trainer.with_weights([&] { sum = (model.a.sum() + model.b.sum() + model.c.sum()).item<double>(); });
  losses.push_back(sum);
  return losses;
}

TEST(ModelTrainer, UnitsMayHaveSeveralOutputs) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder);
  const std::vector<double> wanted = train_fork(0, true, path / "0");
  for (const bool overlap : {true, false}) {
    const std::vector<double> losses = train_fork(3, overlap, path / fmt::format("3-{}", overlap));
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(losses[i], wanted[i], 1e-5 * std::abs(wanted[i]));
  }
  comm::barrier(world());
}

}  // namespace
}  // namespace ddpm::train::test
