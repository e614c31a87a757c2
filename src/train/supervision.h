// What watches over a run: the watchdog, and requests to stop.
#pragma once

#include "comm/watchdog.h"
#include "train/fault.h"
#include "train/runtime.h"

namespace ddpm::train {

class Supervision {
 public:
  /// In phase `start`, from which the first enter() leads. Collective.
  Supervision(const FaultConfig& config, const Runtime& runtime)
      : watchdog_(runtime.session, deadlines_of(config), runtime.log),
        stop_(config),
        world_(runtime.session.world()),
        log_(runtime.log) {}

  /// This rank's main thread goes on to another phase of `step`.
  void enter(comm::Phase phase, int64_t step) { watchdog_.enter(phase, step); }

  [[nodiscard]] StopRequest& stop() { return stop_; }
  /// Between micro-batches: asks all ranks. Collective.
  bool interrupted() { return stop_.ask(world_); }
  /// For the run's end after a request: says why, and throws Stopped. The checkpoint is written.
  [[noreturn]] void end(int64_t step) const {
    log_.info("stopped at step {}, with a checkpoint, by {}; the same command goes on", step, stop_.reason());
    throw Stopped();
  }

 private:
  comm::Watchdog watchdog_;
  StopRequest stop_;
  comm::Communicator& world_;
  const base::Logger& log_;
};

}  // namespace ddpm::train
