// Threads that no signal interrupts.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace ddpm::base {

/// As long as it lives, the thread that made it blocks all signals.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_ = {};
};

/// Starts a thread that blocks all signals, which are the main thread's business. Throws std::system_error where the
/// system lets none be started.
template <typename Work>
std::jthread start_without_signals(Work work) {
  const BlockedSignals inherited;
  return std::jthread(std::move(work));
}

}  // namespace ddpm::base
