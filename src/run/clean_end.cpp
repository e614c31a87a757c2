#include "run/clean_end.h"

#include <array>
#include <atomic>
#include <cerrno>

#include <semaphore.h>
#include <unistd.h>

#include "base/file_system.h"
#include "base/signals.h"

namespace ddpm::run {
namespace {

constexpr std::array kEndingSignals = {SIGHUP, SIGINT, SIGTERM, SIGUSR1};

sem_t ending_came;  // zero, as it lies in memory
std::atomic<int> ended_by = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler

void on_ending(int number) {
  const int kept = errno;
  ended_by = number;
  sem_post(&ending_came);
  errno = kept;
}

void end_by(int number) {
  static_cast<void>(std::signal(number, SIG_DFL));
  ::kill(getpid(), number);  // a thread that does not block it takes it
}

void await_signals(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (sem_wait(&ending_came) != 0 || ended_by == 0) continue;
    base::remove_unfinished();
    return end_by(ended_by);
  }
}

}  // namespace

CleanEnd::CleanEnd() {
  while (sem_trywait(&ending_came) == 0) {  // posted by an earlier object's end
  }
  ended_by = 0;
  thread_ = base::start_without_signals(await_signals);
  for (const int number : kEndingSignals) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action = {};
    action.sa_handler = on_ending;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
    caught_.push_back(number);
  }
}

CleanEnd::~CleanEnd() {
  for (const int number : caught_) static_cast<void>(std::signal(number, SIG_DFL));
  thread_.request_stop();
  sem_post(&ending_came);
  thread_.join();
  if (ended_by != 0) end_by(ended_by);  // it came too late for the thread
}

}  // namespace ddpm::run
