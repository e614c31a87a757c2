#include "train/driver.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "comm/collectives.h"
#include "run/post_hoc_average.h"
#include "run/run_start.h"
#include "train/run_end.h"

namespace ddpm::train {

Driver::Driver(const run::CommonConfig& config, const config::Schema& schema, const run::Runtime& runtime,
               run::Supervision& supervision, int64_t total_steps)
    : config_(config),
      schema_(schema),
      runtime_(runtime),
      world_(runtime.session.world()),
      supervision_(supervision),
      total_steps_(total_steps),
      resume_(config.checkpoint.resume),
      folder_(runtime.files, world_, runtime.log, config.run.directory, schema),
      store_(runtime.files, world_, folder_.path(), runtime.log),
      usage_(folder_, runtime, total_steps),
      callbacks_{&usage_},
      saving_(config, schema, runtime, supervision, store_, callbacks_) {
  supervision_.watch(saving_.saver(), folder_);
}

void Driver::name_sets(std::string images, std::string validation) {
  usage_.name_sets(std::move(images), std::move(validation));
}

std::optional<checkpoint::Checkpoint> Driver::find() {
  auto checkpoint = resume_.find(folder_, store_, runtime_.files, world_);
  if (checkpoint) {
    for (Callback* callback : callbacks_) callback->resume(*checkpoint);
  }
  return checkpoint;
}

void Driver::load(const checkpoint::Checkpoint& checkpoint, engine::TrainingState& state) {
  comm::agree(world_, [&] { run::expect_power_averages(run::PowerAverages::of(config_.ema), checkpoint); });
  resume_.load(checkpoint, state, store_, schema_, world_, runtime_.log);
}

void Driver::start(engine::TrainingState& state, const run::Placement& place,
                   const std::optional<checkpoint::Checkpoint>& loaded, int64_t finished_models) {
  state_ = &state;
  saving_.set_state(state, place);
  run::start_run({folder_, store_, saving_.saver(), supervision_, resume_, finished_models}, runtime_, loaded, state,
                 config_.fault);
  running_ = true;
  usage_.begin(state.progress, place.device);
  supervision_.note(state.progress.step);
}

void Driver::say_start(const std::optional<checkpoint::Checkpoint>& loaded, const std::string& content) const {
  runtime_.log.info("{} {}: {}, {}", loaded ? "resuming" : "starting", folder_.path().string(), content,
                    base::inclusive_range(state_->progress.step + 1, total_steps_, "step"));
}

void Driver::leave_done(int64_t step) {
  runtime_.log.info("{}: done: {}, {} wanted{}; nothing to do", folder_.path().string(), base::counted(step, "step"),
                    total_steps_, step < total_steps_ ? ", stopped early" : "");
  close();
}

bool Driver::ended(int64_t step) const { return has_ended(step, total_steps_, callbacks_); }

bool Driver::done(const std::optional<checkpoint::Checkpoint>& checkpoint) const {
  return is_done(folder_, checkpoint, total_steps_, callbacks_);
}

bool Driver::must_wait_for(int64_t step) const {
  const FinishedStep coming = {.step = step, .last = step >= total_steps_};
  const auto waits = [&](const Callback& callback) { return callback.reads_state() && callback.due(coming); };
  return supervision_.stop().decided() || waits(saving_) ||
         std::ranges::any_of(callbacks_, [&](const Callback* callback) { return waits(*callback); });
}

void Driver::after(const StepResult& result, bool settled) {
  const int64_t count = state_->progress.step;
  FinishedStep step = {.step = count, .last = count >= total_steps_, .result = result};
  const auto call = [this, &step, settled](Callback& callback) {
    step.stopping = supervision_.stop().decided();  // which an earlier callback may have asked
    const bool best = step.best;
    const bool last = step.last;
    if (callback.due(step)) callback.run(step);
    step.last = step.last || callback.ends_run();
    DDPM_CHECK(settled || (step.best == best && step.last == last),
               "a callback wants step {} saved, but the next one is under way already: it was not due, or does not "
               "say that it reads the state",
               step.step);
  };
  for (Callback* callback : callbacks_) call(*callback);
  call(saving_);
}

void Driver::stop_if_asked() {
  if (!stopping()) return;
  save();
  close();
  release();
  supervision_.end(state_->progress.step);
}

void Driver::save() {
  saving_.save();
  drain();
}

void Driver::close() {
  if (std::exchange(closed_, true)) return;
  for (Callback* callback : callbacks_) callback->close();
}

void Driver::release() {
  folder_.release();
  running_ = false;
}

void Driver::guard(const std::function<void()>& work) {
  const auto guarded = [&] {
    try {
      saving_.saver().guard(work);
    } catch (const comm::AgreedError& error) {
      usage_.fail(error.what());
      throw;
    }
  };
  folder_.guard(guarded, [this](const std::function<void()>& unlock) {
    // The thread that writes a checkpoint is waited for as this object goes, unless the ranks end before.
    supervision_.enter(engine::RunPhase::checkpoint, saving_.saver().newest_step());
    if (runtime_.end_for_own_error) runtime_.end_for_own_error(unlock);
  });
}

}  // namespace ddpm::train
