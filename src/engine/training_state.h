// Everything that training changes, of any model: weights, moments, averages and counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/progress.h"
#include "parallel/parameter_arena.h"

namespace ddpm::engine {

/// A tensor of a model, by its name there.
struct NamedTensor {
  std::string name;
  at::Tensor value;
};

struct TrainingState {
  /// Zeroed weights, moments and averages, of which this rank keeps the share that `sharding` says. Binds
  /// `parameters` to them.
  TrainingState(const std::vector<parallel::ArenaParameter>& parameters, std::vector<NamedTensor> constants,
                std::size_t ema_count, at::ScalarType compute_dtype, at::Device device,
                const parallel::Sharding& sharding);

  /// After the initial weights were assigned to arena.master(): copies them into the averages and into this rank's part
  /// of the working weights. Those of other ranks follow with parallel::WeightGatherer.
  void start_from_master();

  /// What is not trained: it travels with the model and with checkpoints.
  std::vector<NamedTensor> constants;
  parallel::ParameterArena arena;
  parallel::StateBuffer exp_avg;
  parallel::StateBuffer exp_avg_sq;
  std::vector<parallel::StateBuffer> ema;
  Progress progress;
};

}  // namespace ddpm::engine
