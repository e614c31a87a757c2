// What a run needs from the process it runs in.
#pragma once

#include <functional>

#include "base/file_system.h"
#include "base/log.h"
#include "comm/mpi_session.h"
#include "comm/watchdog.h"

namespace ddpm::run {

struct Runtime {
  comm::MpiSession& session;
  base::FileSystem& files;
  const base::Logger& log;
  bool force_unlock = false;           ///< take the run folder from another run that holds it
  bool profile = false;                ///< a training writes a timeline of one of its steps
  comm::Watchdog* watchdog = nullptr;  ///< that watches from MPI's start on; null: runs have one of their own
  /// Says the error that is being handled, which this rank alone has, and ends all ranks after `last`; returns where it
  /// is the only rank, and has said it. For a rank that could otherwise wait for long before its error comes to main().
  /// Empty: main() hears of it then.
  std::function<void(const std::function<void()>& last)> end_for_own_error = {};
};

}  // namespace ddpm::run
