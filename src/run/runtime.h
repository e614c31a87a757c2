// What a run needs from the process it runs in.
#pragma once

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
};

}  // namespace ddpm::run
