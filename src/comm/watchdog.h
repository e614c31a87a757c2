// Ends a job that hangs, and says which rank is to blame.
//
// A thread of each rank tells rank 0 every second, or oftener where deadlines are short, what the main thread is doing
// and for how long, on a communicator of its own: the main thread may be stuck inside MPI, a file system or a loop. Its
// phases are the caller's: a training has a deadline for each part of a step, other commands one for the time without
// progress (lateness.h). When a rank is past its deadline, rank 0 prints one line that names the late one (lateness.h)
// and ends all ranks with exit code 5. The others hear of rank 0 in the same way; should it have stopped, rank 1 acts
// some seconds later, and then anybody. A rank whose communication beside MPI has failed
// (MpiSession::set_failure_check) ends the job some seconds later. Where several ranks have an error at the same time,
// such as those that read the same image, one says it. A watchdog that cannot go on itself says why and ends the job
// with the error's exit code.
#pragma once

#include <memory>

#include "base/log.h"
#include "comm/lateness.h"
#include "comm/mpi_session.h"

namespace ddpm::comm {

class Watchdog {
 public:
  /// In phase `start`, the same on all ranks. Collective. `session` and `log` outlive it.
  Watchdog(MpiSession& session, const Phase& start, const base::Logger& log);
  /// Stops watching, unless finish() has. Not collective: other ranks know this one as gone.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The main thread goes on to another phase, of a training's `step` or of none (-1). Costs no call to MPI.
  void enter(const Phase& phase, int64_t step = -1);
  /// The phase that the main thread is in gets another description; the time in it goes on.
  void amend(const Phase& phase);
  /// The phase that the main thread is in.
  [[nodiscard]] Phase phase() const;
  /// The main thread goes on to what has no deadline.
  void rest() { enter(Phase::nothing()); }
  /// For an error of this rank that ends the job: whether it is the first one, as rank 0 sees it, which is to be said.
  /// A rank that gets no answer for some seconds says its own. Rank 0 says nothing else from then on. Not collective.
  [[nodiscard]] bool is_first_to_fail();
  /// Ends all watching when every rank has come here; nothing is on its way between them then. Collective.
  void finish();

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace ddpm::comm
