// The CUDA kernels that make a micro-batch, run on the CPU: bit for bit what ATen computes there.

// Kernels come after what they are written in.
// clang-format off
#include "support/cuda_on_cpu.h"
#include "device/cuda/batch_kernels.h"
#include "device/cuda/draw_case.h"
#include "device/cuda/random_kernels.h"
// clang-format on

#include <array>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include "denoise/denoising_loss.h"
#include "denoise/model_inputs.h"
#include "diffusion/formulation.h"
#include "diffusion/noise.h"
#include "diffusion/schedule.h"

namespace ddpm::device::cuda {
namespace {

constexpr uint32_t kImages = 6;

struct Size {
  int64_t height, width, channels;
};
/// More than a block's share; elements that divide by four and that do not; a single column, pixel, channel.
const std::vector<Size> kSizes = {{32, 32, 3}, {5, 7, 3}, {8, 12, 1}, {9, 1, 5}, {1, 1, 1}, {3, 3, 4}, {40, 29, 1}};

template <typename Stored>
at::Tensor model_images(const at::Tensor& stored, StoredImages images) {
  const at::Tensor out = at::full(stored.sizes(), NAN, at::kFloat);
  const auto* from = stored.const_data_ptr<Stored>();
  images.whole =
      fours_are_whole(from, images.elements) && fours_are_whole(out.const_data_ptr<float>(), images.elements);
  test::cuda::launch(static_cast<unsigned>(stored.size(0)) * chunks_of(images.elements), kBatchThreads, [&] {
    model_images_kernel(draw_from(base::Stream::flip), images, from, out.mutable_data_ptr<float>());
  });
  return out.permute({0, 3, 1, 2});
}

StoredImages arguments(const Size& size, const data::Normalization& map, bool flip) {
  return {.width = static_cast<uint32_t>(size.width),
          .channels = static_cast<uint32_t>(size.channels),
          .elements = static_cast<uint32_t>(size.height * size.width * size.channels),
          .scale = static_cast<float>(map.scale),
          .offset = static_cast<float>(map.offset),
          .flip = flip,
          .whole = false};
}

denoise::StoredBatch stored_batch(const at::Tensor& images) {
  return {.step = kStep,
          .positions = {kFirst, kFirst + images.size(0)},
          .step_on_device = at::scalar_tensor(kStep, at::kLong),
          .values = {images}};
}

/// The kernels on stored images [n, height, width, channels].
std::vector<data::Field> fields_of(const at::Tensor& images, const data::Normalization& map) {
  const auto dtype = images.scalar_type() == at::kByte ? base::DType::u8 : base::DType::f32;
  return data::image_fields({images.size(1), images.size(2), images.size(3), dtype}, map, /*has_labels=*/false);
}

/// The batch as the CPU's operators make it.
denoise::ModelBatch batch_of(const at::Tensor& stored, const data::Normalization& map, bool flip) {
  return denoise::ModelInputs(fields_of(stored, map), at::kCPU)
      .batch(stored_batch(stored), denoise::Augmentation{.seed = kSeed, .horizontal_flip = flip});
}

TEST(ModelImagesKernel, HasTheBitsOfAten) {
  const data::Normalization map{.scale = 0.123, .offset = -0.77};
  for (const Size& size : kSizes) {
    const std::array<int64_t, 4> shape = {kImages, size.height, size.width, size.channels};
    const at::Tensor bytes = at::randint(256, shape, at::kByte);
    const at::Tensor floats = at::randn(shape);
    for (const bool flip : {false, true}) {
      const StoredImages images = arguments(size, map, flip);
      EXPECT_TRUE(at::equal(model_images<uint8_t>(bytes, images), batch_of(bytes, map, flip).x0))
          << at::IntArrayRef(shape) << flip;
      EXPECT_TRUE(at::equal(model_images<float>(floats, images), batch_of(floats, map, flip).x0))
          << at::IntArrayRef(shape) << flip;
    }
  }
}

TEST(ModelImagesKernel, TheImagesHereAreMirroredInPart) {
  const at::Tensor bytes = at::randint(256, std::array<int64_t, 4>{kImages, 5, 4, 3}, at::kByte);
  const at::Tensor same = batch_of(bytes, {}, false).x0.eq(batch_of(bytes, {}, true).x0);
  const auto kept = same.flatten(1).all(1).sum().item<int64_t>();
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, int64_t{kImages});
}

/// Memory that does not begin where 16 bytes (float32) or 4 (uint8) can be read at once.
TEST(ModelImagesKernel, TakesAnyAlignment) {
  const Size size{4, 4, 3};
  const data::Normalization map;
  const std::array<int64_t, 4> shape = {2, 4, 4, 3};
  for (const int64_t shift : {1, 2, 3}) {
    const at::Tensor bytes = at::randint(256, {100}, at::kByte).narrow(0, shift, 96).view(shape);
    const at::Tensor floats = at::randn({100}).narrow(0, shift, 96).view(shape);
    const StoredImages images = arguments(size, map, true);
    EXPECT_TRUE(at::equal(model_images<uint8_t>(bytes, images), batch_of(bytes, map, true).x0));
    EXPECT_TRUE(at::equal(model_images<float>(floats, images), batch_of(floats, map, true).x0));
  }
}

template <typename Out>
at::Tensor blend(const at::Tensor& x, const at::Tensor& y, const at::Tensor& t, const at::Tensor& of_x,
                 const at::Tensor& of_y) {
  at::Tensor out = at::empty_like(x, at::TensorOptions(c10::CppTypeToScalarType<Out>::value));
  const auto elements = static_cast<uint32_t>(x[0].numel());
  auto* const to = out.mutable_data_ptr<Out>();
  const auto* const from_x = x.const_data_ptr<float>();
  const auto* const from_y = y.const_data_ptr<float>();
  const bool whole =
      fours_are_whole(from_x, elements) && fours_are_whole(from_y, elements) && fours_are_whole(to, elements);
  test::cuda::launch(static_cast<unsigned>(x.size(0)) * chunks_of(elements), kBatchThreads, [&] {
    blend_kernel(from_x, from_y, t.const_data_ptr<int64_t>(), of_x.const_data_ptr<float>(),
                 of_y.const_data_ptr<float>(), elements, whole, to);
  });
  return out;
}

template <typename Out>
void expect_blends_of_aten() {
  const at::Tensor of_x = at::randn({10});
  const at::Tensor of_y = at::randn({10});
  const at::Tensor t = at::randint(10, {kImages}, at::kLong);
  const auto factor = [&](const at::Tensor& table) { return table.index_select(0, t).view({-1, 1, 1, 1}); };
  for (const Size& size : kSizes) {
    const std::array<int64_t, 4> shape = {kImages, size.channels, size.height, size.width};
    const at::Tensor x = at::randn(shape).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor y = at::randn(shape).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor wanted = (factor(of_x) * x + factor(of_y) * y).to(c10::CppTypeToScalarType<Out>::value);
    EXPECT_TRUE(at::equal(blend<Out>(x, y, t, of_x, of_y), wanted)) << at::IntArrayRef(shape);
  }
}

TEST(BlendKernel, HasTheBitsOfAten) {
  expect_blends_of_aten<float>();
  expect_blends_of_aten<c10::BFloat16>();
  expect_blends_of_aten<c10::Half>();
}

at::Tensor loss_row(const at::Tensor& losses, const at::Tensor& timesteps, int64_t num_train_timesteps) {
  at::Tensor row = at::full({kLossNumbers}, NAN, at::kDouble);
  test::cuda::launch(1, kLossThreads, [&] {
    loss_row_kernel(losses.const_data_ptr<float>(), timesteps.const_data_ptr<int64_t>(),
                    static_cast<uint32_t>(losses.numel()), num_train_timesteps, row.mutable_data_ptr<double>());
  });
  return row;
}

TEST(LossRowKernel, SumsAsTheCpuDoes) {
  for (const int64_t num_train_timesteps : {4, 10, 1000}) {
    for (const int64_t images : {1, 2, 31, 32, 33, 300}) {
      const at::Tensor losses = at::rand({images}) * 1e3;
      const at::Tensor t = at::randint(num_train_timesteps, {images}, at::kLong);
      const at::Tensor row = loss_row(losses, t, num_train_timesteps);
      EXPECT_TRUE(at::equal(row, denoise::loss_row(losses, t, num_train_timesteps)))
          << images << " " << num_train_timesteps;
      EXPECT_EQ(row.narrow(0, 5, 4).sum().item<double>(), static_cast<double>(images));
    }
  }
}

/// Compares kernels with the CPU's operators, from stored bytes to what the model sees and should predict.
TEST(Kernels, MakeAWholeMicroBatch) {
  const Size size{16, 16, 3};
  diffusion::DiffusionConfig config;
  config.scheduler.prediction_type = diffusion::PredictionType::v_prediction;
  const diffusion::NoiseSchedule schedule(config.scheduler);
  const at::Tensor stored = at::randint(256, {kImages, size.height, size.width, size.channels}, at::kByte);
  const denoise::ModelBatch batch = batch_of(stored, {}, true);
  const auto random = diffusion::make_noise(config, kSeed, batch.step_on_device, kFirst, kImages,
                                            {.channels = size.channels, .height = size.height, .width = size.width});

  const at::Tensor x0 = model_images<uint8_t>(stored, arguments(size, {}, true));
  const at::Tensor t = at::empty({kImages}, at::kLong);
  test::cuda::launch(timestep_blocks(kImages), kDrawThreads, [&] {
    timesteps_kernel(draw_from(base::Stream::timestep), kImages, 1000, t.mutable_data_ptr<int64_t>());
  });
  const TilePlan plan = plan_tiles(3, 256);
  const at::Tensor noise = at::empty_like(x0);
  test::cuda::launch(kImages * plan.tiles(), kDrawThreads, [&] {
    normals_kernel(draw_from(base::Stream::noise), {.stream = 0, .amount = 0.0F}, plan,
                   noise.mutable_data_ptr<float>());
  });
  // LibTorch's root in float32 is one bit off on some processors.
  const auto root = [](const at::Tensor& values) { return values.to(at::kDouble).sqrt().to(at::kFloat); };
  const at::Tensor signal = root(schedule.alphas_cumprod());
  const at::Tensor sigma = root(1.0 - schedule.alphas_cumprod());

  EXPECT_TRUE(at::equal(t, random.timesteps));
  EXPECT_TRUE(at::equal(noise, random.noise));
  EXPECT_TRUE(at::equal(blend<float>(x0, noise, t, signal, sigma),
                        schedule.add_noise(batch.x0, random.noise, random.timesteps)));
  EXPECT_TRUE(at::equal(blend<c10::BFloat16>(x0, noise, t, signal, sigma),
                        schedule.add_noise(batch.x0, random.noise, random.timesteps, at::kBFloat16)));
  EXPECT_TRUE(
      at::equal(blend<float>(noise, x0, t, signal, -sigma), schedule.target(batch.x0, random.noise, random.timesteps)));
}

}  // namespace
}  // namespace ddpm::device::cuda
