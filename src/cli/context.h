// What main() hands to the subcommands.
#pragma once

#include <functional>

#include "base/file_system.h"
#include "base/log.h"
#include "comm/session.h"
#include "comm/watchdog.h"

namespace ddpm::cli {

struct Context {
  comm::MpiSession& session;
  base::FileSystem& files;
  const base::Logger& log;
  comm::Watchdog& watchdog;
};

/// Each subcommand has a function add_X_command(CLI::App&, Command&) that declares its options. When the subcommand is
/// chosen, its callback sets `command`; main() starts MPI after parsing (so that --help needs none) and calls `run` on
/// every rank. It returns normally for exit code 0, and throws for every other one.
struct Command {
  std::function<void(Context&)> run;
  /// The ranks share the work and what they write: main() first holds the launcher's promise against what MPI found
  /// (comm::check_launch). The other commands may run bare as one rank inside a batch job.
  bool shares_work = false;
  /// A training, watched from MPI's start on, whose stop signals count from the start, too.
  bool trains = false;
  /// Leads the watchdog through phases, with deadlines of its own; for other commands but training it rests.
  bool watched = false;
  comm::StartOptions start = {};
};

}  // namespace ddpm::cli
