// What main() hands to the subcommands.
#pragma once

#include <functional>
#include <string>

#include "comm/mpi_session.h"
#include "run/runtime.h"

namespace ddpm::cli {

/// Seconds that a rank of a command may go without progress, 0 for no limit. A training's deadlines are keys of its
/// configuration instead, and `ddpm doctor` has --timeout.
inline constexpr const char* kProgressVariable = "DDPM_PROGRESS_TIMEOUT_S";
inline constexpr double kProgressTimeout = 900.0;

/// The process that the command runs in, and the command.
struct Context : run::Runtime {
  std::string command = {};         ///< "data verify"
  double progress_timeout_s = 0.0;  ///< the value of kProgressVariable

  /// This rank begins a part of the command's work ("reading the images"; "" where it has one part only). All ranks
  /// reach the parts in one order. The watchdog names it when the rank makes no progress in it. One rank alone keeps
  /// nobody waiting, and is not watched.
  void enter(const std::string& part) const;
};

/// Each subcommand has a function add_X_command(const Subcommand&, Command&) that declares its options. When the
/// subcommand is chosen, its callback sets `command`; main() starts MPI after parsing (so that --help needs none) and
/// calls `run` on every rank. It returns normally for exit code 0, and throws for every other one.
struct Command {
  std::function<void(Context&)> run;
  /// The ranks share the work and what they write: main() first holds the launcher's promise against what MPI found
  /// (comm::check_launch). The other commands may run bare as one rank inside a batch job, and start no MPI when they
  /// are bare.
  bool shares_work = false;
  /// A training, whose phases have deadlines of their own, and whose stop signals count from the start, too.
  bool trains = false;
  comm::StartOptions start = {};
};

}  // namespace ddpm::cli
