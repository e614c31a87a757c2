// What watches over a run: the watchdog, requests to stop, and what ranks agree on after each step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/trace.h"
#include "comm/watchdog.h"
#include "run/fault.h"
#include "run/interruption.h"
#include "run/run_folder.h"
#include "run/runtime.h"
#include "run/saver.h"

namespace ddpm::run {

class Supervision {
 public:
  /// Begins in phase `start`, which ends with the first enter(). Collective.
  Supervision(const FaultConfig& config, const Runtime& runtime);
  ~Supervision() { watchdog_.rest(); }
  Supervision(const Supervision&) = delete;
  Supervision& operator=(const Supervision&) = delete;

  /// This rank's main thread enters another phase of `step`.
  void enter(engine::RunPhase phase, int64_t step);
  /// From now on each phase is also a span of `trace`, which outlives this object.
  void trace(base::Trace* trace) { trace_ = trace; }
  /// Ends the span of the phase that the rank is in; with an argument, another one begins.
  void trace_phase(std::optional<engine::RunPhase> next);

  [[nodiscard]] StopRequest& stop() { return stop_; }
  /// Sets the saver and the run folder for the steps that follow: their votes travel with those of stop(). Both outlive
  /// the steps. From now on SIGINT reports what it loses.
  void watch(Saver& saver, RunFolder& run);
  /// Updates what SIGINT reports: `step` is complete, or the newest checkpoint has changed.
  void note(int64_t step);

  /// What a rank adds to the sums of a step, so that agreeing costs no message of its own.
  static constexpr std::size_t kVotes = StopRequest::kVotes + 2;
  using Votes = std::array<double, kVotes>;
  [[nodiscard]] Votes votes() const;
  /// Takes their sums over all ranks, the same on every rank: decides about an end, and commits a checkpoint that is
  /// written. Throws AgreedError when another run has taken the folder. Collective.
  void decide(std::span<const double, kVotes> sums, int64_t step);
  /// Asks all ranks, between micro-batches. Collective.
  bool interrupted() { return stop_.ask(world_); }

  /// Long work after a step, which a run that is asked to stop may leave out.
  struct LongWork {
    engine::RunPhase phase;
    int64_t step = 0;
    bool may_be_given_up = true;
  };
  /// Runs `work`, collective, which calls on all ranks what it is handed, after each of its parts: there the phase
  /// begins anew, and the work is given up if a rank was asked to stop. Returns whether it came to its end. Collective.
  bool run_in_parts(const LongWork& which, const std::function<void(const std::function<void()>& next_part)>& work);
  /// Throws Stopped, before the first step, when a rank was asked to stop. Collective.
  void end_if_asked();
  /// Ends the run after a request, once the checkpoint is written: says why, and throws Stopped.
  [[noreturn]] void end(int64_t step) const;

 private:
  std::unique_ptr<comm::Watchdog> own_;
  comm::Watchdog& watchdog_;
  StopRequest stop_;
  comm::Communicator& world_;
  const base::Logger& log_;
  Saver* saver_ = nullptr;
  RunFolder* run_ = nullptr;
  std::array<comm::Phase, engine::kRunPhases> phases_;
  std::optional<Interruption> interruption_;
  base::Trace* trace_ = nullptr;
  std::optional<engine::RunPhase> traced_;
  double phase_began_ = 0.0;
};

}  // namespace ddpm::run
