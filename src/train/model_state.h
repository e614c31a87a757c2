// Everything that training changes: weights, moments, averages and counters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/unet2d.h"
#include "optim/loss_scaler.h"
#include "parallel/parameter_arena.h"

namespace ddpm::train {

/// Counters of a run; saved with every checkpoint.
struct Progress {
  int64_t step = 0;             ///< attempted optimizer steps, those skipped for overflow included
  int64_t applied_updates = 0;  ///< steps that changed the weights: counts for Adam, learning rate and EMA
  int64_t images_seen = 0;
  optim::LossScaler::State scaler;
  std::string resumed_from;  ///< the checkpoint that checkpoint.resume named, if it named one
};

struct ModelState {
  /// Builds the model with zeroed weights, moments and averages, of which this rank keeps the share that `sharding`
  /// says. `compute_dtype` is what forward and backward use.
  ModelState(const nn::UNet2DConfig& config, std::size_t ema_count, at::ScalarType compute_dtype, at::Device device,
             const parallel::Sharding& sharding);

  /// Initial weights as a function of `seed`, copied into the averages. Working weights of other ranks' parts follow
  /// with parallel::WeightGatherer.
  void initialize(uint64_t seed);
  /// Weights by name (those of a model folder), copied into the averages.
  void initialize(const std::map<std::string, at::Tensor>& weights);

  nn::UNet2D unet;
  /// Parameters that are not trained: they travel with the model and with checkpoints, as float32.
  std::vector<nn::Parameter*> constants;
  parallel::ParameterArena arena;
  parallel::StateBuffer exp_avg;
  parallel::StateBuffer exp_avg_sq;
  std::vector<parallel::StateBuffer> ema;
  Progress progress;

 private:
  void start_from_master();
};

}  // namespace ddpm::train
