// Losses over a validation set on 1 to 4 ranks, in every stage and precision: bit for bit those of one rank that has
// everything, and training's state is left as it was.
#include "denoise/validation_set.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "base/log.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "parallel/whole_tensors.h"
#include "train/denoising_step.h"
#include "train/task.h"
#include "train/validation.h"

namespace ddpm::denoise {
namespace {

using testing::HasSubstr;

constexpr data::ImageFormat kFormat = {.height = 8, .width = 8, .channels = 3, .dtype = base::DType::u8};
const std::vector<int64_t> kShards = {4, 1, 0, 6, 2};  // 13 images, which no number of ranks divides

struct Case {
  int64_t zero_stage = 0;
  std::string precision = "no";
  bool averaged = true;
  std::string checkpointing = "none";
  std::string offload = "none";
  [[nodiscard]] std::string text() const {
    return fmt::format("stage {}, {}, {}, checkpointing {}, offload {}", zero_stage, precision,
                       averaged ? "average" : "raw", checkpointing, offload);
  }
};

std::string toml(const Case& chosen, const std::string& folder) {
  return fmt::format(R"(
[run]
directory = "{0}/run"
seed = 3
device = "cpu"
threads_per_rank = 1
[data]
train = "{0}/train"
validation = "{0}/validation"
[model]
block_out_channels = [8, 16]
down_block_types = ["DownBlock2D", "AttnDownBlock2D"]
up_block_types = ["AttnUpBlock2D", "UpBlock2D"]
layers_per_block = 1
norm_num_groups = 4
dropout = 0.1
[batch]
global_size = 12
micro_size = 1
[train]
steps = 3
[optimizer]
learning_rate = 1e-2
[lr_schedule]
name = "constant"
[ema]
enabled = {1}
[precision]
mixed_precision = "{2}"
[parallel]
zero_stage = {3}
activation_checkpointing = "{4}"
offload = "{5}"
[validation]
every_steps = 1
)",
                     folder, chosen.averaged, chosen.precision, chosen.zero_stage, chosen.checkpointing,
                     chosen.offload);
}

/// A training of three steps, from the configuration on.
class Training {
 public:
  Training(const Case& chosen, const std::string& folder)
      : configuration_(load(chosen, folder)),
        files_(base::posix_file_system()),
        log_(test::world().rank(), test::world().size()),
        task_(train::Task::make(*configuration_, run::Runtime{test::session(), *files_, log_})),
        model_(task_.fitted.unet, task_.config.ema.count(), task_.place.compute_dtype, task_.place.device,
               task_.place.sharding),
        supervision_(task_.config.fault, run::Runtime{test::session(), *files_, log_}),
        step_(task_, model_, test::world(), test::world(), supervision_,
              engine::StepGraph(nullptr, test::world(), log_)) {
    model_.initialize(5);
    step_.state_changed();
    data::BatchLoader loader(task_.dataset, task_.order,
                             {.layout = task_.place.layout, .rank = test::world().rank(), .end_step = 3});
    for (int i = 0; i < 3; ++i) {
      step_.begin(loader);
      step_.finished(/*settle=*/true);
    }
  }
  ~Training() { task_.dataset.close(test::world()); }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  std::vector<double> losses() {
    ValidationSet set = train::open_validation_set(task_.config, task_.dataset, task_.fitted, task_.place.device,
                                                   task_.place.mesh, test::world());
    std::vector<double> losses;
    step_.with_model_weights([&](nn::UnitExecutor& executor) { losses = set.losses(model_.unet, executor).each; });
    set.close();
    return losses;
  }

  /// Has the work with the model's weights fail on this rank.
  void fail_with_model_weights() {
    EXPECT_THROW(step_.with_model_weights([](nn::UnitExecutor&) { throw base::DatasetError("gone"); }),
                 base::DatasetError);
  }

  /// Computes the losses on this rank alone, with a plain copy of the weights.
  std::vector<double> losses_alone(const std::string& folder, ValidationSetOptions options) const {
    const at::NoGradGuard no_grad;
    const auto self = test::world().split(test::world().rank(), 0);
    const at::Tensor whole = parallel::gather_whole(
        model_.arena, model_.ema.empty() ? model_.arena.master() : model_.ema.front(), test::world(), /*keep=*/true);
    train::UNetState single(task_.fitted.unet, 0, task_.place.compute_dtype, at::kCPU, {});
    for (std::size_t i = 0; i < single.arena.entries().size(); ++i) {
      const auto& entry = model_.arena.entries()[i];
      single.arena.assign(
          single.arena.master(), single.arena.entries()[i],
          parallel::ParameterArena::view(whole.narrow(0, entry.range.begin, entry.range.size()), entry));
    }
    single.arena.refresh_working();
    options.seed = 3;
    options.diffusion = task_.config.diffusion;
    ValidationSet set(data::Dataset::open(*self, folder + "/validation"), options, *self);
    nn::UnitExecutor plain;
    std::vector<double> losses = set.losses(single.unet, plain).each;
    set.close();
    return losses;
  }

  /// Copies of everything that training continues with.
  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> copies = {model_.arena.working().clone(), model_.arena.gradient().clone()};
    const auto add = [&copies](const parallel::StateBuffer& buffer) {
      for (const at::Tensor& piece : buffer) copies.push_back(piece.clone());
    };
    add(model_.arena.master());
    add(model_.exp_avg);
    add(model_.exp_avg_sq);
    for (const auto& average : model_.ema) add(average);
    return copies;
  }

 private:
  static std::unique_ptr<train::Configuration> load(const Case& chosen, const std::string& folder) {
    auto configuration = std::make_unique<train::Configuration>();
    configuration->load_text(*base::posix_file_system(), toml(chosen, folder), "test");
    return configuration;
  }

  std::unique_ptr<train::Configuration> configuration_;
  std::unique_ptr<base::FileSystem> files_;
  base::Logger log_;
  train::Task task_;
  train::UNetState model_;
  run::Supervision supervision_;
  train::DenoisingStep step_;
};

class ValidationSetTest : public data::SharedFolderTest {
 protected:
  void SetUp() override {
    SharedFolderTest::SetUp();
    on_rank_0([&] {
      data::write_sample_set(folder_ / "train", kFormat, false, {7, 6});
      info_ = data::write_sample_set(folder_ / "validation", kFormat, false, kShards);
    });
  }

  data::DatasetInfo info_;  // on rank 0
};

/// Every stage with every precision, with and without averages.
std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::string> recomputed = {"none", "blocks", "attention"};
  const std::vector<std::pair<std::string, bool>> weights = {
      {"no", true}, {"no", false}, {"bf16", true}, {"fp16", false}};
  for (int64_t stage = 0; stage <= 3; ++stage) {
    for (const auto& [precision, averaged] : weights) {
      all.push_back({stage, precision, averaged, recomputed[all.size() % recomputed.size()]});
    }
  }
  all.push_back({.zero_stage = 1, .offload = "optimizer"});
  all.push_back({.zero_stage = 3, .precision = "bf16", .offload = "parameters"});
  return all;
}

/// Working weights of other ranks are not gathered again.
TEST_F(ValidationSetTest, WeightsAndAveragesAreTheirOwnAgainAfterAFailure) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    Training training({.zero_stage = stage}, folder_.string());
    const std::vector<at::Tensor> before = training.state();
    training.fail_with_model_weights();
    const std::vector<at::Tensor> after = training.state();
    constexpr std::size_t kKept = 2;  // behind the working weights and the gradient
    for (std::size_t i = kKept; i < before.size(); ++i) EXPECT_TRUE(at::equal(after[i], before[i])) << i;
  }
}

TEST_F(ValidationSetTest, LossesAreThoseOfOneRankAndTrainingSeesNothing) {
  for (const Case& chosen : cases()) {
    SCOPED_TRACE(chosen.text());
    Training training(chosen, folder_.string());
    const std::vector<at::Tensor> before = training.state();
    const std::vector<double> losses = training.losses();
    const std::vector<at::Tensor> after = training.state();
    ASSERT_EQ(losses.size(), 13U);
    EXPECT_EQ(losses, training.losses_alone(folder_.string(), {}));
    EXPECT_EQ(losses, training.losses()) << "a second time";
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << "buffer " << i;
  }
}

/// An average differs from the weights, and both from what other weights give: the test above would see a mix-up.
TEST_F(ValidationSetTest, AverageAndRawWeightsHaveLossesOfTheirOwn) {
  Training averaged({.averaged = true}, folder_.string());
  Training raw({.averaged = false}, folder_.string());
  const std::vector<double> a = averaged.losses();
  const std::vector<double> b = raw.losses();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]) << i;
}

/// However many images count, and however many are computed at once: the loss of an image is its own.
TEST_F(ValidationSetTest, RaggedEndsChangeNoLoss) {
  Training training({.zero_stage = 3}, folder_.string());
  const std::vector<double> all = training.losses();
  for (const int64_t images : {1, 2, 5, 12, 13}) {
    for (const int64_t batch : {1, 3, 16, 100}) {
      const std::vector<double> some = training.losses_alone(folder_.string(), {.images = images, .batch = batch});
      ASSERT_EQ(std::ssize(some), images);
      for (std::size_t i = 0; i < some.size(); ++i)
        EXPECT_NEAR(some[i], all[i], 1e-5 * all[i]) << i << " of " << images;
    }
  }
}

TEST_F(ValidationSetTest, ADamagedImageIsEveryRanksError) {
  on_rank_0([&] {
    const auto offset = info_.shards[3].header_size + 4 * kFormat.bytes();
    test::flip_bit(folder_ / "validation" / info_.shards[3].file, static_cast<std::streamoff>(offset));
  });
  Training training({}, folder_.string());
  EXPECT_THAT(data::refusal([&] { return training.losses(); }), HasSubstr("number 9 of the dataset) is damaged"));
}

}  // namespace
}  // namespace ddpm::denoise
