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
};

struct ModelState {
  /// Builds the model with zeroed weights, moments and averages. `compute_dtype` is what forward and backward use.
  ModelState(const nn::UNet2DConfig& config, std::size_t ema_count, at::ScalarType compute_dtype, at::Device device);

  /// Initial weights as a function of `seed`, copied into the averages.
  void initialize(uint64_t seed);
  /// Weights by name (those of a model folder), copied into the averages.
  void initialize(const std::map<std::string, at::Tensor>& weights);

  nn::UNet2D unet;
  /// Parameters that are not trained: they travel with the model and with checkpoints, as float32.
  std::vector<nn::Parameter*> constants;
  parallel::ParameterArena arena;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  std::vector<at::Tensor> ema;
  Progress progress;

 private:
  void start_from_master();
};

}  // namespace ddpm::train
