#include "run/supervision.h"

#include "base/clock.h"

namespace ddpm::run {

Supervision::Supervision(const FaultConfig& config, const Runtime& runtime)
    : own_(runtime.watchdog != nullptr ? nullptr
                                       : std::make_unique<comm::Watchdog>(
                                             runtime.session, phase_of(engine::RunPhase::start, config), runtime.log)),
      watchdog_(own_ ? *own_ : *runtime.watchdog),
      stop_(config),
      world_(runtime.session.world()),
      log_(runtime.log) {
  for (std::size_t i = 0; i < engine::kRunPhases; ++i) phases_[i] = phase_of(static_cast<engine::RunPhase>(i), config);
  watchdog_.amend(phases_.front());
}

void Supervision::enter(engine::RunPhase phase, int64_t step) {
  if (trace_ != nullptr) trace_phase(phase);
  watchdog_.enter(phases_[static_cast<std::size_t>(phase)], step);
}

void Supervision::trace_phase(std::optional<engine::RunPhase> next) {
  if (next == traced_) return;
  const double now = base::steady_seconds();
  if (traced_) {
    trace_->add({.name = phases_[static_cast<std::size_t>(*traced_)].name,
                 .track = base::Trace::Track::phases,
                 .begin = phase_began_,
                 .end = now});
  }
  traced_ = next;
  phase_began_ = now;
}

void Supervision::watch(Saver& saver, RunFolder& run) {
  saver_ = &saver;
  run_ = &run;
  interruption_.emplace(log_);
}

void Supervision::note(int64_t step) {
  if (interruption_) interruption_->set(step, saver_->committed_step());
}

Supervision::Votes Supervision::votes() const {
  const StopRequest::Votes stop = stop_.votes();
  return {stop[0], stop[1], run_ != nullptr && run_->lost() ? 1.0 : 0.0, saver_ != nullptr ? saver_->vote() : 0.0};
}

void Supervision::decide(std::span<const double, kVotes> sums, int64_t step) {
  stop_.decide(sums.first<StopRequest::kVotes>());
  if (sums[StopRequest::kVotes] > 0.0) run_->require_owned();
  if (saver_ != nullptr && !(sums.back() > 0.0)) saver_->drain();
  note(step);
}

bool Supervision::run_in_parts(const LongWork& which,
                               const std::function<void(const std::function<void()>& next_part)>& work) {
  struct GivenUp {};  // thrown by all ranks together
  enter(which.phase, which.step);
  try {
    work([&] {
      if (which.may_be_given_up && interrupted()) throw GivenUp();
      enter(which.phase, which.step);
    });
  } catch (const GivenUp&) {
    log_.info("step {}: {} is given up, by {}", which.step, phases_[static_cast<std::size_t>(which.phase)].name,
              stop_.reason());
    return false;
  }
  return true;
}

void Supervision::end_if_asked() {
  if (!stop_.ask(world_)) return;
  log_.info("stopped before the first step by {}; repeat the command to start again", stop_.reason());
  throw Stopped();
}

void Supervision::end(int64_t step) const {
  log_.info("stopped at step {}, with a checkpoint, by {}; the same command continues", step, stop_.reason());
  throw Stopped();
}

}  // namespace ddpm::run
