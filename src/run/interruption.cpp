#include "run/interruption.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <semaphore.h>
#include <unistd.h>

#include "base/signals.h"
#include "run/signal_news.h"

namespace ddpm::run {
namespace {

sem_t news;  // nothing to begin with: zero, as it lies in memory

/// Who handles a SIGINT. It changes hands by atomic exchanges only, so that no SIGINT is lost between two of them.
enum class Interrupt : int {
  nobodys,  ///< it ends the process
  awaited,  ///< an Interruption will handle it
  pending,  ///< it has come and is not handled yet
};
std::atomic<Interrupt> interrupt = Interrupt::nobodys;
static_assert(std::atomic<Interrupt>::is_always_lock_free);  // for the handler

/// SIGINT has its default meaning again: SA_RESETHAND. A thread that does not block SIGINT takes it.
void die_of_interrupt() { ::kill(getpid(), SIGINT); }

void on_interrupt(int /*number*/) {
  Interrupt expected = Interrupt::awaited;
  if (interrupt.compare_exchange_strong(expected, Interrupt::pending)) return tell_of_signal();
  const int kept = errno;
  die_of_interrupt();  // the Interruption has ended while this handler began on another thread
  errno = kept;
}

std::string checkpoint_text(int64_t checkpoint) {
  return checkpoint < 0 ? "this run has no checkpoint yet"
                        : fmt::format("the last checkpoint is that of step {}", checkpoint);
}

}  // namespace

void tell_of_signal() {
  const int kept = errno;
  sem_post(&news);
  errno = kept;
}

std::string interruption_text(int64_t step, int64_t checkpoint) {
  const int64_t lost = step - checkpoint;
  const std::string what = checkpoint < 0 ? "all of its steps are lost"
                           : lost == 0    ? "nothing is lost"
                           : lost == 1    ? "1 step is lost"
                                          : fmt::format("{} steps are lost", lost);
  return fmt::format(
      "interrupted by SIGINT after step {}: {}, {}; SIGUSR1 "
      "saves first, and so does SIGINT in fault.stop_signals",
      step, checkpoint_text(checkpoint), what);
}

Interruption::Interruption(const base::Logger& log) : log_(log) {
  while (sem_trywait(&news) == 0) {  // posted in an earlier training
  }
  thread_ = base::start_without_signals([this](const std::stop_token& stop) { wait(stop); });
  struct sigaction before = {};
  sigaction(SIGINT, nullptr, &before);
  active_ = before.sa_handler == SIG_DFL;
  if (!active_) return;
  interrupt = Interrupt::awaited;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

Interruption::~Interruption() {
  if (active_) static_cast<void>(std::signal(SIGINT, SIG_DFL));
  thread_.request_stop();
  sem_post(&news);
  thread_.join();
  // Handles a SIGINT that came too late for the thread.
  if (active_ && interrupt.exchange(Interrupt::nobodys) == Interrupt::pending) tell_and_die();
}

void Interruption::tell_and_die() const {
  log_.info("{}", interruption_text(step_, checkpoint_));
  die_of_interrupt();
}

void Interruption::wait(const std::stop_token& stop) const {
  bool told = !received_stop_signal().empty();
  while (!stop.stop_requested()) {
    if (sem_wait(&news) != 0) continue;
    Interrupt expected = Interrupt::pending;
    if (interrupt.compare_exchange_strong(expected, Interrupt::nobodys)) return tell_and_die();
    const std::string asked = received_stop_signal();
    if (asked.empty() || std::exchange(told, true)) continue;
    log_.info("{} came after step {}: the run saves and stops; until then {}", asked, step_.load(),
              checkpoint_text(checkpoint_));
  }
}

}  // namespace ddpm::run
