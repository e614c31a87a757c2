// Micro-batches on their way from the loader to the model: what the feeder hands over, and that the whole way, through
// the operators that GPUs run, gives the bits of that computation written out in ATen.
#include <deque>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "base/random.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "denoise/batch_stager.h"
#include "denoise/denoising_loss.h"
#include "denoise/model_inputs.h"
#include "diffusion/loss.h"
#include "engine/sharded_training.h"
#include "optim/clip.h"

namespace ddpm::denoise {
namespace {

constexpr uint64_t kSeed = 11;
constexpr int64_t kGlobal = 8;
constexpr int64_t kMicro = 2;
constexpr int64_t kSteps = 3;
constexpr int64_t kImages = 13;

class BatchTest : public data::SharedFolderTest {
 protected:
  /// A new set, and what reads it.
  void open(base::DType dtype, bool labels) {
    format_ = {.height = 8, .width = 8, .channels = 3, .dtype = dtype};
    on_rank_0([&] {
      std::filesystem::remove_all(folder_ / "set");
      write_sample_set(folder_ / "set", format_, labels, {kImages});
    });
    set_.emplace(data::Dataset::open(comm(), folder_ / "set"));
  }
  [[nodiscard]] data::BatchLoader loader(int64_t prefetch) const {
    return {*set_,
            data::ImageOrder(kImages, 5, {.shuffle = data::Shuffle::full}),
            {.layout = layout::BatchLayout::make(kGlobal, kMicro, 1), .end_step = kSteps, .prefetch = prefetch}};
  }

  data::ImageFormat format_;
  std::optional<data::Dataset> set_;
};

constexpr int64_t kBatches = kSteps * kGlobal / kMicro;

at::Tensor bytes_of(const std::vector<std::byte>& images, at::ScalarType dtype, at::IntArrayRef shape) {
  // from_blob takes a void*; the bytes are only read.
  return at::from_blob(const_cast<std::byte*>(images.data()), shape, dtype).clone();  // NOLINT
}

TEST_F(BatchTest, TheFeederHandsOverWhatTheLoaderRead) {
  for (const base::DType dtype : {base::DType::u8, base::DType::f32}) {
    for (const bool labels : {true, false}) {
      open(dtype, labels);
      for (const bool staged : {true, false}) {
        for (const int64_t prefetch : {0, 1, 3}) {
          auto plain = loader(prefetch);
          auto fed = loader(prefetch);
          BatchFeeder feeder(set_->fields(), at::kCPU, staged);
          for (int64_t i = 0; i < kBatches; ++i) {
            const data::MicroBatch wanted = plain.next();
            const StoredBatch seen = feeder.next(fed);
            feeder.read_ahead(fed);  // does not touch what is in use
            EXPECT_EQ(seen.step, wanted.step);
            EXPECT_EQ(seen.step_on_device.item<int64_t>(), wanted.step);
            EXPECT_EQ(seen.positions, wanted.positions);
            const auto type = dtype == base::DType::u8 ? at::kByte : at::kFloat;
            ASSERT_EQ(seen.values.size(), labels ? 2U : 1U);
            EXPECT_TRUE(at::equal(seen.values[0], bytes_of(wanted.values[0], type, {kMicro, 8, 8, 3})));
            const ModelBatch given = ModelInputs(set_->fields(), at::kCPU).batch(seen, {});
            EXPECT_EQ(given.x0.sizes(), (at::IntArrayRef{kMicro, 3, 8, 8}));
            ASSERT_EQ(given.conditions.class_labels.defined(), labels);
            if (!labels) continue;
            EXPECT_TRUE(at::equal(given.conditions.class_labels, at::tensor(data::labels_of(wanted), at::kLong)));
          }
          EXPECT_THROW(feeder.next(fed), base::InternalError);
        }
      }
    }
  }
}

TEST_F(BatchTest, TheFeederReadsOneBatchAhead) {
  open(base::DType::u8, false);
  auto source = loader(1);
  BatchFeeder feeder(set_->fields(), at::kCPU, /*staged=*/true);
  feeder.next(source);
  for (int64_t i = 1; i < kBatches; ++i) {
    while (!source.ready()) std::this_thread::yield();
    feeder.read_ahead(source);
    feeder.read_ahead(source);  // once is enough
    const double waited = source.seconds_waited();
    feeder.next(source);
    EXPECT_EQ(source.seconds_waited(), waited);
  }
  EXPECT_FALSE(source.ready());
  feeder.read_ahead(source);  // at the end there is nothing to read
}

TEST_F(BatchTest, AsManyBatchesAsAreInUseKeepTheirValues) {
  open(base::DType::u8, true);
  for (const int64_t in_use : {1, 2, 3}) {
    auto plain = loader(1);
    auto fed = loader(1);
    BatchFeeder feeder(set_->fields(), at::kCPU, /*staged=*/true, in_use);
    std::deque<std::pair<StoredBatch, data::MicroBatch>> taken;
    for (int64_t i = 0; i < kBatches; ++i) {
      taken.emplace_back(feeder.next(fed), plain.next());
      feeder.read_ahead(fed);
      if (std::ssize(taken) > in_use) taken.pop_front();
      for (const auto& [seen, wanted] : taken) {
        EXPECT_TRUE(at::equal(seen.values[0], bytes_of(wanted.values[0], at::kByte, {kMicro, 8, 8, 3}))) << in_use;
      }
    }
  }
}

/// A micro-batch in plain ATen on the CPU, from what the loader read to losses and gradients.
struct Written {
  at::Tensor losses;
  at::Tensor timesteps;
};
Written written_out(const data::MicroBatch& batch, const nn::UNet2D& unet, const diffusion::NoiseSchedule& schedule) {
  const auto n = batch.positions.size();
  const auto sequence = [&](base::Stream stream, int64_t i) {
    return base::RandomSequence(kSeed, stream, static_cast<uint64_t>(batch.step),
                                static_cast<uint64_t>(batch.positions.begin + i));
  };
  at::Tensor x0 = bytes_of(batch.values[0], at::kByte, {n, 8, 8, 3}).to(at::kFloat).div(127.5).sub(1.0);
  x0 = x0.permute({0, 3, 1, 2}).clone();
  at::Tensor t = at::empty({n}, at::kLong);
  at::Tensor noise = at::empty({n, 3, 8, 8});
  for (int64_t i = 0; i < n; ++i) {
    if (sequence(base::Stream::flip, i).below(2) == 1) x0[i].copy_(x0[i].flip(2));
    t[i] = static_cast<int64_t>(sequence(base::Stream::timestep, i).below(1000));
    sequence(base::Stream::noise, i).fill_normal({noise[i].mutable_data_ptr<float>(), 3 * 8 * 8});
  }
  noise = noise.contiguous(at::MemoryFormat::ChannelsLast);  // in whose order the loss is summed
  const at::Tensor power = schedule.alphas_cumprod().index_select(0, t).view({n, 1, 1, 1});
  // LibTorch's root in float32 is one bit off on some processors.
  const auto root = [](const at::Tensor& values) { return values.to(at::kDouble).sqrt().to(at::kFloat); };
  const at::Tensor x_t = root(power) * x0 + root(1.0 - power) * noise;
  const nn::RandomContext random{.seed = kSeed,
                                 .step = static_cast<uint64_t>(batch.step),
                                 .first_position = static_cast<uint64_t>(batch.positions.begin),
                                 .training = true};
  const at::Tensor losses = diffusion::per_sample_loss(unet.forward(x_t, t, {}, random), noise);
  (losses.sum() * 0.25).backward();
  return {losses.detach(), t};
}

TEST_F(BatchTest, AWholeMicroBatchHasTheBitsOfPlainAten) {
  open(base::DType::u8, false);
  const nn::UNet2D unet(engine::test::tiny_unet());
  nn::allocate(unet.parameters(), at::kFloat);
  nn::initialize(unet.parameters(), 1);
  for (const nn::Parameter* parameter : unet.parameters()) parameter->value.set_requires_grad(true);
  const diffusion::DiffusionConfig config;
  const diffusion::ForwardProcess process(config);
  nn::UnitExecutor direct;
  const DenoisingLoss denoising{unet, process, kSeed, direct};
  engine::PartTimer parts;
  const auto take_gradients = [&] {
    std::vector<at::Tensor> gradients;
    for (const nn::Parameter* parameter : unet.parameters()) {
      gradients.push_back(parameter->value.grad().clone());
      parameter->value.mutable_grad().reset();
    }
    return gradients;
  };

  auto plain = loader(2);
  auto fed = loader(2);
  BatchFeeder feeder(set_->fields(), at::kCPU, /*staged=*/true);
  const ModelInputs inputs(set_->fields(), at::kCPU);
  std::vector<at::Tensor> rows;
  std::array<std::vector<double>, LossSums::kCount> columns;
  for (int64_t i = 0; i < kBatches; ++i) {
    const Written wanted = written_out(plain.next(), unet, process.schedule());
    LossSums sums;
    sums.add(wanted.losses, wanted.timesteps, 1000);
    std::array<double, LossSums::kCount> row{};
    sums.pack(row);
    for (std::size_t k = 0; k < row.size(); ++k) columns.at(k).push_back(row.at(k));
    const auto wanted_gradients = take_gradients();
    rows.push_back(
        denoising.forward_backward(inputs.batch(feeder.next(fed), Augmentation{.seed = kSeed, .horizontal_flip = true}),
                                   at::full({}, 0.25), parts));
    feeder.read_ahead(fed);
    const auto gradients = take_gradients();
    for (std::size_t k = 0; k < gradients.size(); ++k) EXPECT_TRUE(at::equal(gradients[k], wanted_gradients[k])) << k;
  }
  const at::Tensor sums = tree_sum(rows);
  for (std::size_t k = 0; k < columns.size(); ++k) {
    EXPECT_EQ(sums[static_cast<int64_t>(k)].item<double>(), optim::tree_sum(columns.at(k))) << k;
  }
  EXPECT_GT(sums[0].item<double>(), 0.0);
}

}  // namespace
}  // namespace ddpm::denoise
