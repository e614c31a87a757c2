// Training's random inputs: the numbers themselves, and that no way of cutting the batch changes them.
#include <ATen/Parallel.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/equal.h>

#include "diffusion/formulation.h"
#include "golden.h"

namespace ddpm::test {
namespace {

using diffusion::DiffusionConfig;
using diffusion::ImageShape;
using diffusion::TrainingNoise;

at::Tensor step(uint64_t number) { return diffusion::step_tensor(number, at::kCPU); }

TEST(Noise, AgreesWithAnIndependentPhilox) {
  for (const base::Json& golden : read_golden("random.json")) {
    DiffusionConfig config;
    config.offset_noise = golden.at("offset_noise");
    config.scheduler.num_train_timesteps = golden.at("num_train_timesteps");
    const auto shape = golden.at("shape").get<std::vector<int64_t>>();
    const TrainingNoise random =
        make_noise(config, golden.at("seed"), step(golden.at("step")), golden.at("first_position"), shape[0],
                   ImageShape{shape[1], shape[2], shape[3]});
    EXPECT_TRUE(at::equal(random.timesteps, integers(golden.at("timesteps"))));
    EXPECT_EQ(random.noise.sizes(), at::IntArrayRef(shape));
    EXPECT_LT(relative_error(random.noise, floats(golden.at("noise"))), 1e-6);
  }
}

TEST(Noise, IsTheSameHoweverTheBatchIsCut) {
  DiffusionConfig config;
  config.offset_noise = 0.2;
  const ImageShape shape{3, 5, 7};
  const TrainingNoise whole = make_noise(config, 3, step(11), 16, 12, shape);
  for (const int64_t micro : {1, 3, 4}) {
    for (int64_t begin = 0; begin < 12; begin += micro) {
      const TrainingNoise part = make_noise(config, 3, step(11), 16 + begin, micro, shape);
      EXPECT_TRUE(at::equal(part.timesteps, whole.timesteps.narrow(0, begin, micro)));
      EXPECT_TRUE(at::equal(part.noise, whole.noise.narrow(0, begin, micro)));
    }
  }
}

TEST(Noise, OfATileIsThatOfItsPixelsInTheImage) {
  for (const double offset : {0.0, 0.2}) {
    DiffusionConfig config;
    config.offset_noise = offset;
    ImageShape shape{3, 12, 7};
    const at::Tensor whole = make_noise(config, 3, step(11), 16, 2, shape).noise;
    const auto expect = [&](const at::Tensor& wanted) {
      const at::Tensor drawn = make_noise(config, 3, step(11), 16, 2, shape).noise;
      ASSERT_EQ(drawn.sizes(), wanted.sizes());
      // ATen adds what is shifted with one rounding or with two, by a number's place in memory.
      EXPECT_LE(relative_error(drawn, wanted), offset == 0.0 ? 0.0 : 1e-7);
    };
    shape.tile = diffusion::ImageTile{.row = {5, 9}, .column = {2, 7}};
    expect(whole.narrow(2, 5, 4).narrow(3, 2, 5));
    shape.tile = diffusion::ImageTile{.layers = 3, .layer = {1, 3}, .row = {0, 3}, .column = {0, 7}};
    expect(whole.unflatten(2, {3, 4}).narrow(2, 1, 2).narrow(3, 0, 3).flatten(2, 3));
  }
}

TEST(Noise, OfValidationBelongsToTheImageAndIsNotThatOfTraining) {
  DiffusionConfig config;
  config.offset_noise = 0.2;
  const ImageShape shape{3, 5, 7};
  const TrainingNoise whole = validation_noise(config, 3, 0, 37, shape);
  for (const int64_t batch : {1, 5, 36}) {
    for (int64_t begin = 0; begin < 37; begin += batch) {
      const int64_t count = std::min<int64_t>(batch, 37 - begin);
      const TrainingNoise part = validation_noise(config, 3, begin, count, shape);
      EXPECT_TRUE(at::equal(part.timesteps, whole.timesteps.narrow(0, begin, count)));
      EXPECT_TRUE(at::equal(part.noise, whole.noise.narrow(0, begin, count)));
    }
  }
  const TrainingNoise training = make_noise(config, 3, step(0), 0, 37, shape);
  EXPECT_FALSE(at::equal(training.timesteps, whole.timesteps));
  EXPECT_GT(relative_error(training.noise, whole.noise), 1.0);
}

TEST(Noise, OfTheGridLiesAtTheMiddlesOfEqualSharesOfTraining) {
  constexpr int64_t kLevels = 8;
  for (const auto formulation :
       {diffusion::Formulation::ddpm, diffusion::Formulation::edm, diffusion::Formulation::flow}) {
    DiffusionConfig config;
    config.scheduler.formulation = formulation;
    config.scheduler.shift = formulation == diffusion::Formulation::flow ? 3.0 : 1.0;
    if (formulation == diffusion::Formulation::flow) config.timestep_sampler = diffusion::TimestepSampler::logit_normal;
    const at::Tensor drawn = validation_noise(config, 3, 0, 20000, {1, 1, 1}).timesteps.to(at::kDouble);
    for (int64_t level = 0; level < kLevels; ++level) {
      const TrainingNoise grid = grid_levels(config, {level, kLevels}, 2);
      EXPECT_EQ(grid.timesteps[0].item<double>(), grid.timesteps[1].item<double>());
      const double below = (drawn < grid.timesteps[0].to(at::kDouble)).to(at::kDouble).mean().item<double>();
      EXPECT_NEAR(below, (static_cast<double>(level) + 0.5) / kLevels, 0.02);
    }
  }
  const TrainingNoise first = grid_noise(DiffusionConfig{}, 3, {0, kLevels}, 5, 2, {3, 4, 4});
  EXPECT_TRUE(at::equal(first.noise, validation_noise(DiffusionConfig{}, 3, 5, 2, {3, 4, 4}).noise));
  EXPECT_EQ(first.timesteps[0].item<int64_t>(), 62);  // of 1000: those from 0 to 124 are the share
  const TrainingNoise second = grid_noise(DiffusionConfig{}, 3, {1, kLevels}, 5, 2, {3, 4, 4});
  EXPECT_GT(relative_error(second.noise, first.noise), 1.0);
}

TEST(Noise, IsTheSameForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const ImageShape shape{3, 8, 8};
  at::set_num_threads(1);
  const TrainingNoise one = make_noise(DiffusionConfig{}, 1, step(2), 0, 9, shape);
  at::set_num_threads(3);
  const TrainingNoise three = make_noise(DiffusionConfig{}, 1, step(2), 0, 9, shape);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one.noise, three.noise));
}

TEST(Noise, TimestepsAreUniform) {
  DiffusionConfig config;
  config.scheduler.num_train_timesteps = 8;
  const TrainingNoise random = make_noise(config, 0, step(0), 0, 8000, ImageShape{1, 1, 1});
  const at::Tensor counts = at::bincount(random.timesteps, {}, 8);
  ASSERT_EQ(counts.numel(), 8);
  // 1000 each, with a standard deviation of 30.
  EXPECT_GT(counts.min().item<int64_t>(), 850);
  EXPECT_LT(counts.max().item<int64_t>(), 1150);
}

}  // namespace
}  // namespace ddpm::test
