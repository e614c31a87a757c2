// Converts between a TrainingState and checkpoint slices.
//
// Tensors of a checkpoint, float32 but for constants of another type, named after the model's parameters:
//   model/NAME             master weights (and what is frozen or constant)
//   exp_avg/NAME           AdamW's first moment
//   exp_avg_sq/NAME        AdamW's second moment
//   ema.I/NAME             exponential moving average I
// With parallel.sync_every, what island I > 0 has of its own (model, exp_avg, exp_avg_sq) lies under island.I/, and
//   anchor/NAME            weights after the last outer step
//   outer_momentum/NAME    momentum of outer steps
// Values are stored in the model's logical axis order, whatever their order in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/json.h"
#include "base/parameter_role.h"
#include "checkpoint/config.h"
#include "checkpoint/store.h"
#include "device/copy_stream.h"
#include "engine/training_state.h"
#include "run/state_slices.h"
#include "run/weight_choice.h"

namespace ddpm::run {

/// A tensor of a model that checkpoints hold in float32, unless it is pretrained: then they hold nothing of it.
struct ModelTensor {
  std::string name;
  std::vector<int64_t> shape;
  base::ParameterRole role = base::ParameterRole::trained;
  at::Tensor value = {};  ///< undefined for a model that is not made yet
};

/// A rank's share of the state, copied to host memory: what CheckpointStore writes.
struct Snapshot {
  std::vector<checkpoint::TensorSlice> slices;
  std::vector<at::Tensor> values;  ///< contiguous, one per slice
  std::vector<bool> fixed;         ///< for each slice: training does not change it
  base::Json state = base::Json::object();
  std::unique_ptr<device::CopyStream> copies;  ///< one for all: a GPU keeps memory for each stream
  device::CopyStream::Mark copied;             ///< where the values have come to host memory

  /// Blocks until the values are there; any thread may call it.
  void wait() { copied.wait(); }

  [[nodiscard]] std::vector<checkpoint::LocalSlice> local_slices() const;
};

/// Returns the request that saves `snapshot`, whose memory must stay, with retention as [checkpoint] says. Its check is
/// that the counters can be read back. Callers add what they know besides, and how that is checked.
checkpoint::SaveRequest save_request(const Snapshot& snapshot, const std::string& config_hash,
                                     const checkpoint::CheckpointConfig& retention);

/// What messages about a manifest's `state` begin with; `manifest` is the path of the file.
std::string state_origin(const base::Path& manifest);
std::string state_origin(const checkpoint::Checkpoint& checkpoint);

/// How many islands have saved a checkpoint (parallel.sync_every); 0: it is of a training without.
int64_t islands_in(const checkpoint::Manifest& manifest);

/// Bytes of a checkpoint of the state, shards of all ranks together, and of so many finished models: that of the last
/// step, and that of the best one. Beside adapters these are whole models, and the adapters are written once more.
int64_t checkpoint_bytes(const engine::TrainingState& model, int64_t finished_models);
/// Returns checkpoint_bytes() for the state of a model that does not exist yet. `islands`: copies of the state that are
/// updated on their own; 0: none.
int64_t checkpoint_bytes(std::span<const ModelTensor> model, std::size_t averages, int64_t finished_models,
                         int64_t islands);

/// Copies what `replica` saves of what this rank keeps, into the memory of an earlier snapshot of this state if there
/// is one, which is no longer used. From a device it only begins to: snapshot.wait() comes before the values are read,
/// and TrainingState::before_change() before the state changes.
void take_snapshot(engine::TrainingState& model, const Replica& replica, Snapshot& snapshot);

/// Loads what this rank keeps from a checkpoint of any number of ranks and any stage. An island that the checkpoint
/// does not have begins as one that it has; where it has none, all begin as its one copy of the state. Collective.
/// Throws OutputError when the checkpoint is of another model.
void restore(engine::TrainingState& model, checkpoint::CheckpointStore& store,
             const checkpoint::Checkpoint& checkpoint);

/// Throws what restore() would throw for a state of this model with so many averages, and reads no tensor. Not
/// collective.
void expect_restorable(std::span<const ModelTensor> model, std::size_t averages,
                       const checkpoint::Checkpoint& checkpoint);

/// Reads only the chosen weights into the values of `model`, and nothing into those that are pretrained. Collective.
void restore_weights(std::span<const ModelTensor> model, const WeightChoice& choice, checkpoint::CheckpointStore& store,
                     const checkpoint::Checkpoint& checkpoint);

}  // namespace ddpm::run
