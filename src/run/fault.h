// [fault]: when a run stops on request, and how long a rank may take before the job counts as hanging.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/lateness.h"
#include "config/schema.h"
#include "engine/run_phase.h"

namespace ddpm::run {

/// {"USR1", "USR2", "TERM"}
std::vector<std::string> usual_stop_signals();

struct FaultConfig {
  double init_timeout_s = 900.0;
  double step_timeout_s = 900.0;
  double checkpoint_timeout_s = 1800.0;
  double validation_timeout_s = 1800.0;
  std::vector<std::string> stop_signals = usual_stop_signals();
  double max_minutes = 0.0;
  int64_t skip_nonfinite = 0;
  int64_t compare_replicas_every = 500;
  int64_t max_starts_without_progress = 10;
};

void describe(config::Section& section, FaultConfig& c);
/// Throws base::ConfigError for a signal that cannot be used.
void validate(const FaultConfig& c);
/// Returns, for the watchdog, a part of a training with its deadline.
comm::Phase phase_of(engine::RunPhase phase, const FaultConfig& c);

/// The run was asked to stop and has a checkpoint: thrown by all ranks together, with exit code 75. It is not an error.
struct Stopped : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "stopped on request"; }
};

/// From now on signals that stop a training by default are remembered until there is a StopRequest, which decides what
/// they mean. Call it first in a program: it needs nothing that is initialised at run time, and loading libraries and
/// starting MPI may take minutes.
void hold_stop_signals();
/// Call it in a program that turns out not to train: the signals mean again what they meant when the program started
/// (to be ignored, where the batch script has `trap '' USR1`), and one that has come acts.
void release_stop_signals();

/// Whether this rank was asked to stop: by one of fault.stop_signals, or by the clock. Handlers only set a flag; a
/// second signal changes nothing. One of fault.stop_signals that the program's parent had it ignore counts, too. One
/// object at a time. At its end the signals mean what they meant before, or nothing if one of them has come: it has
/// been answered.
class StopRequest {
 public:
  explicit StopRequest(const FaultConfig& config);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// What a rank adds to a sum over ranks to learn whether any of them was asked.
  static constexpr std::size_t kVotes = 2;
  using Votes = std::array<double, kVotes>;
  [[nodiscard]] Votes votes() const;

  /// Takes the sums of votes(), which every rank has alike. True from then on when any rank was asked.
  bool decide(std::span<const double, kVotes> sums);
  /// votes(), their sum over the ranks of `world`, decide(). Collective.
  bool ask(comm::Communicator& world);
  [[nodiscard]] bool decided() const { return decided_; }
  /// "a signal (SIGUSR1 on this rank)" or "fault.max_minutes = 30"; after decided().
  [[nodiscard]] std::string reason() const;

 private:
  double max_minutes_;
  std::vector<int> signals_;
  bool decided_ = false;
  bool by_signal_ = false;
};

}  // namespace ddpm::run
