// Checkpoints as a callback: every so many steps, after the last one, and of a state that is the best so far.
#pragma once

#include <vector>

#include "checkpoint/store.h"
#include "comm/collectives.h"
#include "engine/training_state.h"
#include "run/config.h"
#include "run/placement.h"
#include "run/runtime.h"
#include "run/saver.h"
#include "run/supervision.h"
#include "train/callback.h"

namespace ddpm::train {

class Saving final : public Callback {
 public:
  /// `callbacks` say what a checkpoint remembers beside the state. Everything outlives this object.
  Saving(const run::CommonConfig& config, const config::Schema& schema, const run::Runtime& runtime,
         run::Supervision& supervision, checkpoint::CheckpointStore& store, const std::vector<Callback*>& callbacks);

  /// From now on `state` is what is saved.
  void set_state(engine::TrainingState& state, const run::Placement& place);

  [[nodiscard]] bool due(const FinishedStep& step) const override;
  void run(FinishedStep& /*step*/) override { save(); }
  /// Makes sure that a checkpoint of the state's step is on its way or there. Collective; throws as run::Saver::save.
  void save();
  /// Waits for the checkpoint on its way, and commits it. Collective.
  void drain() { saver_.drain(); }
  [[nodiscard]] run::Saver& saver() { return saver_; }

 private:
  void begin_again(const comm::AgreedError& failure, const run::Runtime& runtime);

  const run::CommonConfig& config_;
  const config::Schema& schema_;
  comm::Communicator& world_;
  run::Supervision& supervision_;
  const std::vector<Callback*>& callbacks_;
  engine::TrainingState* state_ = nullptr;
  const run::Placement* place_ = nullptr;
  run::Saver saver_;
};

}  // namespace ddpm::train
