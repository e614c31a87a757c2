#include "run/unfinished.h"

#include <array>
#include <atomic>
#include <cerrno>

#include <semaphore.h>
#include <unistd.h>

#include "base/error.h"
#include "base/signals.h"

namespace ddpm::run {
namespace {

constexpr std::array kEndingSignals = {SIGHUP, SIGINT, SIGTERM};

sem_t ending_came;  // zero, as it lies in memory
std::atomic<int> ended_by = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler

void on_ending(int number) {
  const int kept = errno;
  ended_by = number;
  sem_post(&ending_came);
  errno = kept;
}

/// Removes a folder also while the main thread writes another file into it.
void remove_while_it_grows(base::FileSystem& files, const base::Path& path) {
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      return files.remove_all(path);
    } catch (const base::Error&) {  // NOLINT(bugprone-empty-catch): what ends the command is told, and this is not
    }
  }
}

void end_by(int number) {
  static_cast<void>(std::signal(number, SIG_DFL));
  ::kill(getpid(), number);  // a thread that does not block it takes it
}

}  // namespace

Unfinished::Unfinished(const Runtime& runtime, const base::Path& path) : runtime_(runtime), path_(path) {
  if (path_.empty()) return;
  runtime_.session.before_abort([&files = runtime.files, path] { remove_while_it_grows(files, path); });
  while (sem_trywait(&ending_came) == 0) {  // of an earlier object's end
  }
  ended_by = 0;
  thread_ = base::start_without_signals([this](const std::stop_token& stop) { await_signals(stop); });
  for (const int number : kEndingSignals) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action = {};
    action.sa_handler = on_ending;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
    caught_.push_back(number);
  }
}

Unfinished::~Unfinished() {
  if (path_.empty()) return;
  for (const int number : caught_) static_cast<void>(std::signal(number, SIG_DFL));
  thread_.request_stop();
  sem_post(&ending_came);
  thread_.join();
  runtime_.session.before_abort({});
  if (ended_by != 0) end_by(ended_by);  // it came too late for the thread
}

void Unfinished::await_signals(const std::stop_token& stop) const {
  while (!stop.stop_requested()) {
    if (sem_wait(&ending_came) != 0 || ended_by == 0) continue;
    remove_while_it_grows(runtime_.files, path_);
    return end_by(ended_by);
  }
}

}  // namespace ddpm::run
