// Everything that training changes, of any model: weights, moments, averages and counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/parameter_role.h"
#include "device/copy_stream.h"
#include "engine/progress.h"
#include "parallel/parameter_arena.h"

namespace ddpm::engine {

/// A tensor of the model that training does not change: a frozen or pretrained parameter, or a constant. Every rank
/// holds all of it, in any ZeRO stage; its part where blocks are cut by channels, and that of its own stage alone.
struct FixedTensor {
  std::string name;
  base::ParameterRole role = base::ParameterRole::constant;
  at::Tensor value;    ///< what is saved and loaded: float32, a constant in its own type; what is pretrained, in the
                       ///< compute dtype, is loaded only
  at::Tensor working;  ///< what forward sees: in the compute dtype, a constant as it is; `value` itself if that is both
  base::Split split = {};  ///< the part of the whole tensor that `value` is
};

/// What an outer step needs (engine/outer_step.h).
struct OuterState {
  parallel::StateBuffer anchor;  ///< the weights with which all islands began after the last outer step
  parallel::StateBuffer momentum;
};

struct TrainingState {
  /// Zeroed weights, moments and averages, of which this rank keeps the share that `sharding` says. Binds trained and
  /// frozen `parameters` to them; constants are bound already.
  TrainingState(const std::vector<parallel::ArenaParameter>& parameters, std::size_t ema_count,
                at::ScalarType compute_dtype, at::Device device, const parallel::Sharding& sharding);

  /// Call it after the initial weights were assigned to arena.master() and fixed[].value: it copies them into the
  /// averages and into this rank's part of the working weights. Those of other ranks follow with
  /// parallel::WeightGatherer.
  void start_from_master();

  /// Call it after a checkpoint was loaded: it sets this rank's part of the working weights, and what forward sees of
  /// frozen ones.
  void refresh_working();

  /// Call it before the state is changed: on a device, the change follows what still reads the state.
  void before_change();

  /// Tensors that are not trained, in the order of the parameters. They travel with the model and with checkpoints.
  std::vector<FixedTensor> fixed;
  parallel::ParameterArena arena;
  parallel::StateBuffer exp_avg;
  parallel::StateBuffer exp_avg_sq;
  std::vector<parallel::StateBuffer> ema;
  std::optional<OuterState> outer;  ///< set where islands are updated on their own (parallel.sync_every)
  Progress progress;
  device::CopyStream::Mark reader = {};  ///< where a copy of the state that is under way has read all of it
};

/// Copies the values of a buffer of the same arena.
void copy_values(const parallel::StateBuffer& from, const parallel::StateBuffer& to);

}  // namespace ddpm::engine
