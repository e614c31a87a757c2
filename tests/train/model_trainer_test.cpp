// A model that is not ours, put together from plain tensors, trained by ModelTrainer.
#include "train/model_trainer.h"

#include <cmath>

#include <ATen/Functions.h>

#include "comm/collectives.h"
#include "optim/clip.h"
#include "support/mpi_test.h"
#include "support/temporary_folder.h"

namespace ddpm::train::test {
namespace {

constexpr int64_t kWidth = 12;
constexpr int64_t kGlobalSize = 16;

comm::MpiSession& session() { return ddpm::test::session(); }
comm::Communicator& world() { return ddpm::test::world(); }

at::Tensor values(at::IntArrayRef shape, double frequency) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return at::sin(at::arange(count, at::kFloat) * frequency).mul_(0.5).reshape(shape);
}

/// A convolution, a linear layer, a number that is learned, and a scale and counter that are not.
struct Model {
  at::Tensor conv = values({kWidth, 1, 3, 3}, 0.7);
  at::Tensor linear = values({1, kWidth}, 1.3);
  at::Tensor bias = at::zeros({});
  at::Tensor scale = at::full({kWidth, 1, 1}, 1.5);
  at::Tensor calls = at::zeros({}, at::kLong);
  at::Tensor alias = conv;  ///< modules hold a parameter in more places than one

  [[nodiscard]] OwnModel own(std::vector<std::string> units = {}) const {
    return {{{"head.weight", linear}, {"body.conv", conv}, {"head.bias", bias}},
            {{"body.scale", scale}, {"calls", calls}},
            std::move(units)};
  }
  [[nodiscard]] at::Tensor body(const at::Tensor& x) const {
    const at::Tensor y = at::silu(at::conv2d(x, alias, {}, 1, 1) * scale.to(x.scalar_type()));
    return y.mean(at::IntArrayRef{2, 3});
  }
  [[nodiscard]] at::Tensor head(const at::Tensor& x) const { return at::linear(x, linear, {}) + bias; }
};

at::Tensor images(const MicroBatchPosition& position) {
  std::vector<at::Tensor> list;
  for (int64_t i = 0; i < position.count; ++i) {
    list.push_back(values({1, 6, 6}, 0.1 + 0.05 * static_cast<double>((position.first + i + 5 * position.step) % 16)));
  }
  return at::stack(list);
}

struct Case {
  int64_t stage = 0;
  std::vector<std::string> units = {};
  std::string precision = "no";
  int64_t micro_size = 2;
  int64_t steps = 6;
  int64_t every = 0;
  bool reproducible = false;
  std::string text() const { return fmt::format("stage {} units {} {}", stage, units.size(), precision); }
};

struct Result {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, at::Tensor> weights;
  int64_t calls = 0;
  bool resumed = false;
};

void configure(TrainerConfiguration& configuration, const Case& chosen, const base::Path& directory) {
  TrainerConfig& c = configuration.values();
  c.run.directory = directory;
  c.run.device = "cpu";
  c.run.threads_per_rank = 1;
  c.run.reproducible = chosen.reproducible;
  c.batch = {.global_size = kGlobalSize, .micro_size = chosen.micro_size};
  c.steps = chosen.steps;
  c.optimizer = {.learning_rate = 1e-2, .eps = 1e-4};
  c.lr_schedule.name = "constant";
  c.parallel.zero_stage = chosen.stage;
  c.precision.mixed_precision = chosen.precision;
  c.checkpoint.every_steps = chosen.every;
  c.checkpoint.async = false;  // train() leaves early without save(): what is on its way then would be lost
  configuration.load({}, world());
}

/// `stop_after`: steps of this call.
Result train(const Case& chosen, const base::Path& directory, int64_t stop_after = 1000) {
  const base::Logger log(1, world().size());  // says nothing
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, chosen, directory);
  Model model;
  if (world().rank() > 0) model.linear.fill_(7.0);  // rank 0's initial values count
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own(chosen.units));
  Result result;
  result.resumed = trainer.resume();
  while (!trainer.done() && stop_after-- > 0) {
    const StepResult step = trainer.step([&](const MicroBatchPosition& position) {
      model.calls += 1;
      const at::Tensor x = images(position).to(trainer.compute_dtype());
      at::Tensor y;
      if (chosen.units.empty()) {
        y = model.head(model.body(x));
      } else {
        const at::Tensor features = trainer.run_unit("body", [&] { return model.body(x); });
        y = trainer.run_unit("head", [&] { return model.head(features); });
      }
      return (y.to(at::kFloat) - 0.3).square().sum();
    });
    result.losses.push_back(step.loss);
    result.norms.push_back(step.gradient_norm);
  }
  result.weights = trainer.weights();
  result.calls = model.calls.item<int64_t>();
  return result;
}

base::Path shared_folder(const ddpm::test::TemporaryFolder& own) {
  return comm::broadcast(world(), own.path().string());
}

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

/// The same training by whole batches, autograd and AdamW's formula.
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

TEST(ModelTrainer, ReproducibleRunsAgreeInEveryBit) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder);
  const Result a = train({.reproducible = true}, path / "a");
  const Result b = train({.stage = 1, .units = {"body", "head"}, .reproducible = true}, path / "b");
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  comm::barrier(world());
}

TEST(ModelTrainer, RefusesModelsThatItCannotTrain) {
  const base::Logger log(1, 2);
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {}, "never-made");
  const auto refused = [&](const OwnModel& model, const std::string& part) {
    try {
      ModelTrainer(configuration, {session(), *files, log}, model);
      ADD_FAILURE() << "accepted; wanted: " << part;
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const Model model;
  refused({}, "no parameters");
  refused({{{"a", model.conv}, {"a", model.linear}}, {}, {}}, "have the name a");
  refused({{{"a", model.conv}, {"b", model.alias}}, {}, {}}, "b is a tensor");
  refused({{{"a", model.calls}}, {}, {}}, "a is of type Long");
  refused({{{"a", model.conv.to(at::kDouble)}}, {}, {}}, "a is of type Double");
  refused({{{"a", model.conv}}, {{"b", at::zeros({2}, at::kComplexFloat)}}, {}}, "b is complex");
  refused(model.own({"body"}), "head.weight belongs to none of the units body");
}

TEST(ModelTrainer, RefusesAnotherModelOnOneRank) {
  if (world().size() == 1) return;  // nobody to differ from
  const base::Logger log(1, 2);
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {}, "never-made");
  const Model model;
  OwnModel own = model.own();
  if (world().rank() == 1) own.parameters.front().name = "other";
  try {
    ModelTrainer(configuration, {session(), *files, log}, own);
    ADD_FAILURE() << "accepted";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::communication);
    EXPECT_NE(std::string(error.what()).find("model"), std::string::npos) << error.what();
  }
}

TEST(ModelTrainer, SkipsStepsThatAreNotFiniteAsFarAsAllowed) {
  const ddpm::test::TemporaryFolder folder;
  const base::Logger log(1, 2);
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {}, base::Path(shared_folder(folder)) / "run");
  configuration.values().fault.skip_nonfinite = 1;
  const Model model;
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own());
  trainer.resume();
  bool poisoned = false;
  const auto loss = [&](const MicroBatchPosition& position) {
    const at::Tensor sum = model.head(model.body(images(position))).square().sum();
    return poisoned && position.first == 0 ? sum * std::nan("") : sum;
  };
  trainer.step(loss);
  const auto before = trainer.weights();
  poisoned = true;
  EXPECT_TRUE(std::isinf(trainer.step(loss).gradient_norm));
  for (const auto& [name, value] : trainer.weights()) EXPECT_TRUE(at::equal(value, before.at(name))) << name;
  EXPECT_EQ(trainer.progress().applied_updates, 1);
  poisoned = false;
  EXPECT_TRUE(std::isfinite(trainer.step(loss).gradient_norm));
  poisoned = true;
  trainer.step(loss);
  EXPECT_THROW(trainer.step(loss), comm::AgreedError);
  comm::barrier(world());
}

TEST(ModelTrainer, NamesTheRankWhoseLossIsNotFinite) {
  const ddpm::test::TemporaryFolder folder;
  const base::Logger log(1, 2);
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {}, base::Path(shared_folder(folder)) / "run");
  const Model model;
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own());
  trainer.resume();
  const int odd = world().size() - 1;
  try {
    trainer.step([&](const MicroBatchPosition& position) {
      const at::Tensor loss = model.head(model.body(images(position))).square().sum();
      return world().rank() == odd ? loss * std::nan("") : loss;
    });
    ADD_FAILURE() << "accepted";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::numerics);
    EXPECT_NE(std::string(error.what()).find(fmt::format("not on rank {}", odd)), std::string::npos) << error.what();
  }
  comm::barrier(world());
}

TEST(ModelTrainer, KeepsConstantsInTheirOwnType) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder) / "run";
  const base::Logger log(1, world().size());
  const auto files = base::posix_file_system();
  const auto constants = [](int64_t n, double x, bool b) {
    return std::vector<NamedTensor>{
        {"n", at::full({2}, n, at::kLong)}, {"x", at::full({}, x, at::kDouble)}, {"b", at::full({3}, b, at::kBool)}};
  };
  for (const bool first : {true, false}) {
    TrainerConfiguration configuration;
    configure(configuration, {.steps = 2, .every = 1}, path);
    const Model model;
    OwnModel own = model.own();
    // The second program begins with other values, which the checkpoint replaces.
    own.constants = first ? constants(16777217, 0.1, true) : constants(0, 0.0, false);
    ModelTrainer trainer(configuration, {session(), *files, log}, own);
    EXPECT_EQ(trainer.resume(), !first);
    const auto loss = [&](const MicroBatchPosition&) { return model.head(model.conv.sum({1, 2, 3})).sum(); };
    if (first) {
      (void)trainer.step(loss);
      trainer.save();
    }
    EXPECT_EQ(own.constants[0].value[1].item<int64_t>(), 16777217);
    EXPECT_EQ(own.constants[1].value.item<double>(), 0.1);
    EXPECT_TRUE(own.constants[2].value.all().item<bool>());
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
    return {{{"a.w", a}, {"b.w", b}, {"c.w", c}, {"scale", scale}}, {}, {"scale", "a", "b", "c"}};
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
