// The UNet and everything that training changes of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/training_state.h"
#include "layout/range.h"
#include "nn/unet2d.h"

namespace ddpm::train {

/// A base of UNetState, since it has to be there before the state that binds its parameters.
struct TrainedUNet {
  nn::UNet2D unet;
  std::vector<layout::Range> stages{};  ///< the units of each stage of a pipeline; of one: all
  layout::Range units{};                ///< that this rank has the parameters of: its stage

  [[nodiscard]] bool holds(const nn::Parameter& parameter) const {
    return parameter.unit >= units.begin && parameter.unit < units.end;
  }
  /// Elements that are trained, on all ranks together.
  [[nodiscard]] int64_t trained_count() const;
};

struct UNetState : TrainedUNet, engine::TrainingState {
  /// Builds the model with zeroed weights, moments and averages, of which this rank keeps the share that `sharding`
  /// says. `compute_dtype` is what forward and backward use.
  UNetState(const nn::UNet2DConfig& config, std::size_t ema_count, at::ScalarType compute_dtype, at::Device device,
            const parallel::Sharding& sharding);
  /// Makes the state of a model some of whose parameters are frozen.
  UNetState(nn::UNet2D model, std::size_t ema_count, at::ScalarType compute_dtype, at::Device device,
            const parallel::Sharding& sharding);

  /// Initial weights as a function of `seed`, copied into the averages; those that are pretrained stay. Working weights
  /// of other ranks' parts follow with parallel::WeightGatherer.
  void initialize(uint64_t seed);
  /// Sets one weight, of which this rank may keep a part or nothing. When all have been set, start_from_master()
  /// follows.
  void assign(const std::string& name, const at::Tensor& values);
};

}  // namespace ddpm::train
