// A UNet trained for some steps with any layout of ranks, put together as train/denoising_step.cpp does, but without
// data sets and files: for comparison with training on one rank, with others' reducers and with planned memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "engine/step_rules.h"
#include "engine/training_state.h"
#include "layout/range.h"
#include "nn/config.h"
#include "nn/unet2d.h"
#include "parallel/config.h"
#include "support/relative_distance.h"
#include "train/unet_state.h"

namespace ddpm::engine::test {

inline constexpr int64_t kGlobalSize = 12;
inline constexpr uint64_t kWeightSeed = 5;
inline constexpr uint64_t kNoiseSeed = 7;

/// Two levels, one with attention, for images of 8 pixels.
nn::UNet2DConfig tiny_unet();

/// Images [n, 3, side, side] of a step, channels-last: waves of many directions, the same on every rank.
at::Tensor images(int64_t step, layout::Range positions, int64_t side);

struct TrainingCase {
  nn::UNet2DConfig model = tiny_unet();  ///< its sample_size is the side of the images
  parallel::ParallelConfig parallel = {};
  int64_t micro_size = 1;
  bool reproducible = false;
  std::string mixed_precision = "no";
  double eps = 1e-4;  ///< Adam's: its default turns the rounding of gradients that are zero in truth into steps
  std::function<void(StepRules&)> change_rules = {};
  bool ahead = false;   ///< steps begin before the last is concluded, where they may; ranks are not compared
  bool reload = false;  ///< as after a checkpoint was loaded, before each step
  int64_t votes = 0;    ///< numbers that travel with a step's losses
  std::function<void(nn::UNet2D& model)> change_roles = {};  ///< of its parameters, before the state is made
  std::function<void(train::UNetState& model)> at_end = {};  ///< after the last step, on all ranks
  std::function<bool(int64_t step)> poisoned = {};  ///< whether the images that this rank has in a step are NaN
  std::string text() const;
};

/// What the case asks of its ranks.
layout::Parallelism parallelism_of(const TrainingCase& chosen);

struct TrainingResult {
  at::Tensor weights;    ///< the whole flat master weights, in an order that no layout changes
  at::Tensor gradients;  ///< of the last step, summed over the global batch, in the same order
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  std::vector<double> learning_rates;
  std::vector<Progress> progress;  ///< after each step
  int64_t most_under_way = 0;      ///< when a step had been handed over
  at::Tensor average;              ///< the first, in the order of `weights`
};

/// Trains on the ranks of `comm` for `steps` steps of kGlobalSize images each. Collective.
TrainingResult train(const TrainingCase& chosen, comm::Communicator& comm, int steps);

/// Bytes that host tensors of one training take on this rank after `steps` steps, when nothing of a step is left:
/// counted by test::CountingAllocator. Collective.
int64_t counted_state_bytes(const TrainingCase& chosen, comm::Communicator& comm, int steps);

using ddpm::test::relative_distance;

}  // namespace ddpm::engine::test
