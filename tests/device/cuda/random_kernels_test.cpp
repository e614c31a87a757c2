// The CUDA kernels of random inputs, run on the CPU: bit for bit the numbers of base/random.h, whatever the size.

// Kernels come after what they are written in.
// clang-format off
#include "support/cuda_on_cpu.h"
#include "device/cuda/draw_case.h"
#include "device/cuda/random_kernels.h"
// clang-format on

#include <array>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "diffusion/noise.h"
#include "nn/dropout.h"

namespace ddpm::device::cuda {
namespace {

std::vector<int64_t> timesteps(const Draw& draw, uint32_t images, uint32_t num_train_timesteps) {
  std::vector<int64_t> t(images, -1);
  test::cuda::launch(timestep_blocks(images), kDrawThreads,
                     [&] { timesteps_kernel(draw, images, num_train_timesteps, t.data()); });
  return t;
}

at::Tensor normals(const Draw& draw, const OffsetNoise& offset, at::IntArrayRef shape) {
  const TilePlan plan = plan_tiles(static_cast<uint32_t>(shape[1]), static_cast<uint32_t>(shape[2] * shape[3]));
  at::Tensor out = at::empty(shape, at::TensorOptions().memory_format(at::MemoryFormat::ChannelsLast)).fill_(NAN);
  test::cuda::launch(static_cast<unsigned>(shape[0]) * plan.tiles(), kDrawThreads,
                     [&] { normals_kernel(draw, offset, plan, out.mutable_data_ptr<float>()); });
  return out;
}

at::Tensor wanted_normals(base::Stream stream, at::IntArrayRef shape) {
  return diffusion::image_normals(kSeed, stream, kStep, kFirst, shape[0],
                                  {.channels = shape[1], .height = shape[2], .width = shape[3]});
}

TEST(TimestepsKernel, DrawsTheIntegersOfTheCpu) {
  for (const uint32_t images : {1U, 255U, 256U, 257U, 700U}) {
    for (const uint32_t num_train_timesteps : {1U, 7U, 1000U, 0xFFFFFFFFU}) {
      const auto t = timesteps(draw_from(base::Stream::timestep), images, num_train_timesteps);
      for (uint32_t i = 0; i < images; ++i) {
        const base::RandomSequence sequence(kSeed, base::Stream::timestep, kStep, kFirst + i);
        ASSERT_EQ(t[i], sequence.below(num_train_timesteps)) << images << " " << i;
      }
    }
  }
}

TEST(TimestepsKernel, ReadsTheStepWhenItRuns) {
  int64_t step = 3;
  const Draw draw = draw_from(base::Stream::timestep, &step);
  const auto third = timesteps(draw, 50, 1000);
  step = 4;
  EXPECT_NE(timesteps(draw, 50, 1000), third);
  step = 3;
  EXPECT_EQ(timesteps(draw, 50, 1000), third);
}

/// Pixels that divide by four and that do not, channels in one tile and in several, images smaller than a tile.
const std::vector<std::array<int64_t, 4>> kShapes = {
    {1, 1, 1, 1}, {3, 3, 8, 8},  {2, 3, 32, 32}, {2, 3, 5, 7},   {1, 4, 24, 16}, {2, 1, 33, 33}, {1, 2, 31, 1},
    {2, 7, 1, 1}, {1, 85, 6, 6}, {1, 128, 3, 3}, {1, 255, 2, 2}, {1, 256, 5, 1}, {2, 257, 4, 2}, {1, 600, 3, 1},
};

TEST(NormalsKernel, HasTheBitsOfTheCpu) {
  for (const auto& shape : kShapes) {
    const at::Tensor seen = normals(draw_from(base::Stream::noise), {.stream = 0, .amount = 0.0F}, shape);
    EXPECT_TRUE(at::equal(seen, wanted_normals(base::Stream::noise, shape))) << at::IntArrayRef(shape);
  }
}

TEST(NormalsKernel, ShiftsEachChannelByANormalOfItsOwn) {
  constexpr float kAmount = 0.3F;
  for (const auto& shape : kShapes) {
    const OffsetNoise offset{.stream = static_cast<uint32_t>(base::Stream::offset_noise), .amount = kAmount};
    const at::Tensor seen = normals(draw_from(base::Stream::noise), offset, shape);
    const at::Tensor shifts = wanted_normals(base::Stream::offset_noise, {shape[0], shape[1], 1, 1});
    const at::Tensor wanted = wanted_normals(base::Stream::noise, shape).to(at::kDouble) +
                              shifts.to(at::kDouble) * static_cast<double>(kAmount);
    EXPECT_TRUE(at::equal(seen, wanted.to(at::kFloat))) << at::IntArrayRef(shape);  // rounded once
  }
}

template <typename Out>
void expect_masks_of_the_cpu(at::IntArrayRef shape, const nn::TilePlace& rows) {
  constexpr uint32_t kLayer = 5;
  constexpr double kP = 0.3;
  const TilePlan plan =
      plan_tiles(static_cast<uint32_t>(shape[1]), static_cast<uint32_t>(shape[2] * shape[3]),
                 static_cast<uint32_t>(rows.total * shape[3]), static_cast<uint32_t>(rows.first * shape[3]));
  const at::Tensor mask = at::empty(
      shape, at::TensorOptions(c10::CppTypeToScalarType<Out>::value).memory_format(at::MemoryFormat::ChannelsLast));
  test::cuda::launch(static_cast<unsigned>(shape[0]) * plan.tiles(), kDrawThreads, [&] {
    dropout_mask_kernel(draw_from(base::dropout_stream(kLayer)), static_cast<float>(kP),
                        static_cast<float>(1.0 / (1.0 - kP)), plan, mask.mutable_data_ptr<Out>());
  });
  const nn::RandomContext random{.seed = kSeed, .step = kStep, .first_position = kFirst, .training = true};
  EXPECT_TRUE(at::equal(mask, nn::dropout_mask(shape, rows, kP, kLayer, random).to(mask.scalar_type())))
      << shape << mask.scalar_type() << rows.first;
}

TEST(DropoutMaskKernel, HasTheBitsOfTheCpu) {
  for (const auto& shape : kShapes) {
    expect_masks_of_the_cpu<float>(shape, {.first = 0, .total = shape[2]});
    expect_masks_of_the_cpu<c10::BFloat16>(shape, {.first = 0, .total = shape[2]});
    expect_masks_of_the_cpu<c10::Half>(shape, {.first = 0, .total = shape[2]});
    expect_masks_of_the_cpu<float>(shape, {.first = 3, .total = shape[2] + 5});  // a band of rows
  }
}

}  // namespace
}  // namespace ddpm::device::cuda
