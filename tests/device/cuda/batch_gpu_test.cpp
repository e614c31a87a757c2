// Compares libddpm_cuda.so's operators on a GPU with those on the CPU, bit for bit, and feeds batches to the GPU while
// it computes.
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "denoise/batch_stager.h"
#include "denoise/denoising_loss.h"
#include "denoise/model_inputs.h"
#include "device/device_library.h"
#include "diffusion/formulation.h"
#include "diffusion/schedule.h"
#include "nn/dropout.h"
#include "support/cuda_library.h"

namespace ddpm::train {
namespace {

constexpr uint64_t kSeed = 0xFEDCBA9876543210U;
constexpr int64_t kFirst = 96;
constexpr int64_t kImages = 33;

at::Device gpu() {
  static const device::DeviceLibrary library(test::cuda_library());
  return {at::kCUDA, 0};
}

/// Expects equal bits, on whichever device they are.
bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && at::equal(a.cpu(), b.cpu());
}

const std::vector<std::array<int64_t, 4>> kShapes = {{kImages, 3, 64, 64}, {kImages, 3, 5, 7}, {kImages, 1, 1, 1},
                                                     {kImages, 4, 33, 31}, {2, 3, 256, 256},   {2, 300, 9, 9}};

TEST(OnAGpu, TimestepsAndNoiseAreTheCpus) {
  diffusion::DiffusionConfig config;
  for (const double offset_noise : {0.0, 0.1}) {
    config.offset_noise = offset_noise;
    for (const auto& s : kShapes) {
      const auto draw = [&](at::Device device) {
        return make_noise(config, kSeed, diffusion::step_tensor(9, device), kFirst, s[0],
                          {.channels = s[1], .height = s[2], .width = s[3]});
      };
      const auto seen = draw(gpu());
      const auto wanted = draw(at::kCPU);
      EXPECT_TRUE(seen.noise.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_TRUE(same(seen.timesteps, wanted.timesteps)) << at::IntArrayRef(s);
      if (offset_noise == 0.0) {
        EXPECT_TRUE(same(seen.noise, wanted.noise)) << at::IntArrayRef(s);
      } else {  // some CPUs round the product before they add it
        EXPECT_TRUE(at::allclose(seen.noise.cpu(), wanted.noise, 2e-7, 1e-7)) << at::IntArrayRef(s);
      }
    }
  }
}

TEST(OnAGpu, DropoutIsTheCpus) {
  const nn::RandomContext random{.seed = kSeed, .step = 9, .first_position = kFirst, .training = true};
  const nn::ForwardContext context{random, nn::whole_image()};
  for (const auto& s : kShapes) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor x = at::randn(s).to(dtype).contiguous(at::MemoryFormat::ChannelsLast);
      EXPECT_TRUE(same(nn::dropout(x.to(gpu()), 0.3, 2, context), nn::dropout(x, 0.3, 2, context)))
          << at::IntArrayRef(s) << dtype;
    }
  }
}

TEST(OnAGpu, ImagesAreTheCpus) {
  const data::Normalization map{.scale = 0.123, .offset = -0.77};
  for (const auto& s : kShapes) {
    for (const auto dtype : {at::kByte, at::kFloat}) {
      const at::Tensor stored = at::randint(256, {s[0], s[2], s[3], s[1]}, dtype);
      const auto stored_dtype = dtype == at::kByte ? base::DType::u8 : base::DType::f32;
      const auto fields = data::image_fields({s[2], s[3], s[1], stored_dtype}, map, /*has_labels=*/false);
      for (const bool flip : {false, true}) {
        const auto make = [&](at::Device device) {
          return denoise::ModelInputs(fields, device)
              .batch({.step = 4,
                      .positions = {kFirst, kFirst + s[0]},
                      .step_on_device = diffusion::step_tensor(4, device),
                      .values = {stored.to(device)}},
                     denoise::Augmentation{.seed = kSeed, .horizontal_flip = flip})
              .x0;
        };
        const at::Tensor seen = make(gpu());
        EXPECT_TRUE(seen.is_contiguous(at::MemoryFormat::ChannelsLast));
        EXPECT_TRUE(same(seen, make(at::kCPU))) << at::IntArrayRef(s) << dtype << flip;
      }
    }
  }
}

TEST(OnAGpu, NoisyImagesAndTargetsAreTheCpus) {
  diffusion::SchedulerConfig config;
  config.prediction_type = diffusion::PredictionType::v_prediction;
  const diffusion::NoiseSchedule on_cpu(config);
  const diffusion::NoiseSchedule on_gpu(config, gpu());
  for (const auto& s : kShapes) {
    const at::Tensor x0 = at::randn(s);
    const at::Tensor noise = at::randn(s).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor t = at::randint(1000, {s[0]}, at::kLong);
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      EXPECT_TRUE(same(on_gpu.add_noise(x0.to(gpu()), noise.to(gpu()), t.to(gpu()), dtype),
                       on_cpu.add_noise(x0, noise, t, dtype)))
          << at::IntArrayRef(s) << dtype;
    }
    EXPECT_TRUE(same(on_gpu.target(x0.to(gpu()), noise.to(gpu()), t.to(gpu())), on_cpu.target(x0, noise, t)));
  }
}

TEST(OnAGpu, LossesAddUpAsOnTheCpu) {
  for (const int64_t images : {1, 31, 300}) {
    const at::Tensor losses = at::rand({images});
    const at::Tensor t = at::randint(1000, {images}, at::kLong);
    EXPECT_TRUE(same(denoise::loss_row(losses.to(gpu()), t.to(gpu()), 1000), denoise::loss_row(losses, t, 1000)))
        << images;
  }
}

/// Batches are put while the GPU still works on the ones before: none may see another's bytes.
TEST(OnAGpu, BatchesAreStagedBesideComputation) {
  const data::ImageFormat format{.height = 64, .width = 64, .channels = 3, .dtype = base::DType::u8};
  constexpr int64_t kBatches = 60;
  const auto batch_of = [&](int64_t step) {
    data::MicroBatch batch;
    batch.step = step;
    batch.positions = {0, kImages};
    const std::vector<int64_t> labels(kImages, 1000 * step);
    const auto label_bytes = std::as_bytes(std::span(labels));
    batch.values = {std::vector<std::byte>(kImages * format.bytes(), static_cast<std::byte>(step)),
                    {label_bytes.begin(), label_bytes.end()}};
    return batch;
  };
  denoise::BatchStager stager(data::image_fields(format, {}, /*has_labels=*/true), gpu());
  at::Tensor work = at::randn({2048, 2048}, gpu()) / 64.0;
  std::vector<at::Tensor> sums;
  stager.put(batch_of(0));
  for (int64_t step = 0; step < kBatches; ++step) {
    const denoise::StoredBatch batch = stager.take();
    for (int i = 0; i < 4; ++i) work = at::matmul(work, work).clamp(-1.0, 1.0);  // the host is ahead of the GPU
    sums.push_back(at::stack({batch.values[0].sum(at::kLong), batch.values[1].sum(), batch.step_on_device}));
    if (step + 1 < kBatches) stager.put(batch_of(step + 1));
  }
  for (int64_t step = 0; step < kBatches; ++step) {
    const auto bytes = static_cast<int64_t>(kImages * format.bytes());
    const at::Tensor wanted = at::tensor({bytes * step, kImages * 1000 * step, step}, at::kLong);
    EXPECT_TRUE(same(sums[static_cast<std::size_t>(step)], wanted)) << step;
  }
}

}  // namespace
}  // namespace ddpm::train
