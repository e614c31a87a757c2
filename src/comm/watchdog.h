// Ends a job that hangs, and says which rank is to blame.
//
// A thread of each rank tells rank 0 every second what the main thread is doing and for how long, on a communicator of
// its own: the main thread may be stuck inside MPI, a file system or a loop. When a rank is past its deadline, rank 0
// prints one line that names the late one (lateness.h) and ends all ranks with exit code 5. Rank 1 watches rank 0 in
// the same way, and every rank itself, should those two have stopped. A rank whose communication beside MPI has failed
// (MpiSession::set_failure_check) ends the job some seconds later.
#pragma once

#include <memory>

#include "base/log.h"
#include "comm/lateness.h"
#include "comm/session.h"

namespace ddpm::comm {

class Watchdog {
 public:
  /// In phase `start`. Collective. `session` and `log` outlive it.
  Watchdog(MpiSession& session, const Deadlines& deadlines, const base::Logger& log);
  /// Stops watching, unless finish() has. Not collective: other ranks know this one as gone.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The main thread goes on to another phase. Costs no call to MPI.
  void enter(Phase phase, int64_t step);
  /// The main thread goes on to what has no deadline.
  void rest() { enter(Phase::gone, 0); }
  /// Ends all watching when every rank has come here; nothing is on its way between them then. Collective.
  void finish();
  /// From now on, on this rank; all have the same.
  void set_deadlines(const Deadlines& deadlines);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace ddpm::comm
