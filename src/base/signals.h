// Threads that no signal interrupts.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace ddpm::base {

/// Starts a thread that blocks all signals, which are the main thread's business.
template <typename Work>
std::jthread start_without_signals(Work work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::jthread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace ddpm::base
