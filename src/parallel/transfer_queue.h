// Communication beside computation: transfers run one after the other, in the order in which they were pushed.
//
// On host memory MPI makes progress only inside its calls, so a thread of the queue's own makes them, and sleeps
// between them rather than taking a core from the computation. On device memory the communicator's own stream does the
// work: push() starts the first stage, and the waits order what comes later on the caller's stream.
//
// Each transfer is a chain of collectives on communicators that nobody else uses while transfers are pending. All ranks
// push the same transfers in the same order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/trace.h"
#include "comm/communicator.h"

namespace ddpm::parallel {

struct Transfer {
  /// Each starts one collective, after work of its own where it has some; the next begins when it is complete. They, or
  /// `finish`, own the tensors whose memory is used: if the program ends in an error, it outlives everything else.
  std::vector<std::function<comm::Work()>> stages;
  /// Called after the last stage: in Mode::thread by the queue's thread, and otherwise by the caller of push or of a
  /// wait.
  std::function<void()> finish;
  std::string name = {};  ///< for a timeline; "": it does not show there
};

class TransferQueue {
 public:
  enum class Mode : uint8_t {
    thread,   ///< host memory, beside computation
    stream,   ///< device memory, beside computation
    blocking  ///< push() returns when the transfer is complete
  };
  explicit TransferQueue(Mode mode);
  /// Pending transfers are abandoned, and their memory with them: the destructor makes no collective call. Call drain()
  /// first.
  ~TransferQueue();
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  /// Numbers transfers from 0.
  int64_t push(Transfer transfer);
  /// Blocks until at most `pending` transfers are not complete. Throws what a transfer threw. Waiting time counts as
  /// exposed.
  void wait_until_pending(int64_t pending);
  /// Blocks until transfer `number` is complete.
  void wait_for(int64_t number);
  void drain() { wait_until_pending(0); }
  /// Lets go of transfers that are complete, and of their memory, without waiting: in Mode::thread the thread does so.
  void forget_complete();
  /// Forgets transfers whose work was recorded for a device, and will never run (Mode::stream).
  void discard();

  /// From now on transfers that have a name are spans of `trace`, which outlives them; null ends that.
  void trace(base::Trace* trace) { trace_ = trace; }
  /// Seconds that callers waited, since the last call.
  double take_exposed_seconds();

 private:
  void serve(const std::stop_token& stop);
  void complete_started(int64_t count);
  void wait_until_complete(int64_t count);

  Mode mode_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Transfer> queue_;
  std::deque<comm::Work> started_;  // Mode::stream: the first stages of queue_
  int64_t pushed_ = 0;
  int64_t completed_ = 0;
  std::exception_ptr failure_;
  double exposed_seconds_ = 0.0;
  base::Trace* trace_ = nullptr;
  std::jthread thread_;
};

}  // namespace ddpm::parallel
