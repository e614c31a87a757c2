#include "train/saving.h"

#include "comm/collectives.h"
#include "config/resolve.h"
#include "engine/replicas.h"
#include "run/post_hoc_average.h"

namespace ddpm::train {

Saving::Saving(const run::CommonConfig& config, const config::Schema& schema, const run::Runtime& runtime,
               run::Supervision& supervision, checkpoint::CheckpointStore& store,
               const std::vector<Callback*>& callbacks)
    : config_(config),
      schema_(schema),
      world_(runtime.session.world()),
      supervision_(supervision),
      callbacks_(callbacks),
      saver_(
          config.checkpoint, store, world_,
          [this, &log = runtime.log](const auto& saved, double stall_seconds) {
            supervision_.note(state_->progress.step);
            log.info("{}", run::text_of(saved, stall_seconds));
            for (Callback* callback : callbacks_) callback->saved(saver_.committed_step());
          },
          [this, &runtime](const comm::AgreedError& failure) { begin_again(failure, runtime); },
          [this] { supervision_.enter(engine::RunPhase::checkpoint, state_->progress.step); }) {}

void Saving::set_state(engine::TrainingState& state, const run::Placement& place) {
  state_ = &state;
  place_ = &place;
}

bool Saving::due(const FinishedStep& step) const {
  const int64_t every = config_.checkpoint.every_steps;
  return step.last || step.best || (every > 0 && step.step % every == 0);
}

void Saving::save() {
  if (saver_.newest_step() == state_->progress.step) return;
  supervision_.enter(engine::RunPhase::checkpoint, state_->progress.step);
  engine::compare_before_saving(*state_, place_->mesh, world_, config_.fault.compare_replicas_every);
  saver_.save(*state_, place_->replica, config::identity_hash(schema_), [this](checkpoint::SaveRequest& request) {
    for (Callback* callback : callbacks_) {
      callback->write(request);
      request.retention.pinned.merge(callback->pinned());
      // Whoever waits for the end of the run (jobs/track.py) sees that no step follows.
      if (callback->ends_run()) request.state["ended"] = true;
    }
    run::write_power_averages(run::PowerAverages::of(config_.ema), request.state);
  });
}

void Saving::begin_again(const comm::AgreedError& failure, const run::Runtime& runtime) {
  const std::string node = comm::broadcast(world_, runtime.session.node_name(), failure.failed_rank());
  runtime.log.warn("a checkpoint could not be written, and is tried once more while training waits: rank {} on {}: {}",
                   failure.failed_rank(), node, failure.what());
  supervision_.enter(engine::RunPhase::checkpoint, state_->progress.step);
}

}  // namespace ddpm::train
