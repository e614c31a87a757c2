#include "diffusion/level_grid.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "diffusion/formulation.h"

namespace ddpm::diffusion {
namespace {

using testing::ElementsAre;
using testing::Field;

TEST(LevelGrid, LiesEvenlyAmongTimesteps) {
  const DiffusionConfig config;
  EXPECT_THAT(level_grid(config, 4), ElementsAre(Field(&GridLevel::name, "t_125"), Field(&GridLevel::name, "t_375"),
                                                 Field(&GridLevel::name, "t_625"), Field(&GridLevel::name, "t_875")));
}

TEST(LevelGrid, LevelsThatCoincideAreOne) {
  DiffusionConfig config;
  config.scheduler.num_train_timesteps = 2;
  EXPECT_EQ(level_grid(config, 10).size(), 2);
  config.scheduler.formulation = Formulation::regression;
  EXPECT_EQ(level_grid(config, 10).size(), 1);
}

// Whatever training draws: of its levels the share `quantile` lies below.
TEST(LevelGrid, HoldsTheQuantilesOfTheLevelsThatTrainingDraws) {
  constexpr int64_t kImages = 20000;
  const at::Tensor step = step_tensor(1, at::kCPU);
  for (const Formulation formulation : {Formulation::ddpm, Formulation::edm, Formulation::flow}) {
    for (const TimestepSampler sampler : {TimestepSampler::uniform, TimestepSampler::logit_normal}) {
      if (formulation == Formulation::edm && sampler != TimestepSampler::uniform) continue;
      DiffusionConfig config;
      config.scheduler.formulation = formulation;
      config.scheduler.shift = 3.0;
      config.timestep_sampler = sampler;
      config.logit_mean = 0.4;
      const TrainingNoise drawn = make_noise(config, 3, step, 0, kImages, {1, 1, 1});
      for (const GridLevel& level : level_grid(config, 5)) {
        const TrainingNoise grid = at_level(config, drawn, level.quantile);
        EXPECT_EQ(grid.timesteps.scalar_type(), drawn.timesteps.scalar_type());
        EXPECT_EQ(grid.timesteps.sizes(), drawn.timesteps.sizes());
        EXPECT_TRUE(grid.noise.is_same(drawn.noise));
        const auto below = (drawn.timesteps < grid.timesteps).sum().item<int64_t>();
        EXPECT_NEAR(static_cast<double>(below) / kImages, level.quantile, 0.015) << level.name;
      }
    }
  }
}

}  // namespace
}  // namespace ddpm::diffusion
