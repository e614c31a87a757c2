#include "comm/watchdog.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/mpi_communicator.h"
#include "comm/wait_flag.h"

namespace ddpm::comm {
namespace {

constexpr int kBeatTag = 1;
constexpr auto kBetweenBeats = std::chrono::seconds(1);
constexpr auto kBetweenLooks = std::chrono::milliseconds(250);
// Rank 0 acts first, then rank 1, then anybody.
constexpr double kDeputyGrace = 3.0;
constexpr double kOwnGrace = 6.0;
// A rank that ends the job for a reason of its own takes its communicators along first: its reason shall be the one.
constexpr double kFailureGrace = 2.0;
constexpr double kStopped = 2.0;  // seconds between looks after which this process must have been stopped

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

/// A message: phase, step, sequence, whether it waits, milliseconds in the phase, whether it is the last one.
using Beat = std::array<int64_t, 6>;

/// What one other rank says: a receive that is always open.
class Ear {
 public:
  Ear(MPI_Comm comm, int from) : comm_(comm), from_(from) { listen(); }
  Ear(Ear&&) = delete;
  /// Local: a receive that nothing came for is cancelled.
  ~Ear() {
    if (MPI_Cancel(&request_) == MPI_SUCCESS) MPI_Request_free(&request_);
  }

  RankState state() {
    int arrived = 1;
    while (MPI_Test(&request_, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS && arrived != 0) {
      state_ = {.phase = static_cast<Phase>(beat_[0]),
                .step = beat_[1],
                .sequence = beat_[2],
                .waiting = beat_[3] != 0,
                .age_s = static_cast<double>(beat_[4]) * 1e-3};
      said_last_ = beat_[5] != 0;
      heard_ = Clock::now();
      listen();
    }
    state_.silent_s = seconds_since(heard_);
    return state_;
  }
  bool heard_last() {
    state();
    return said_last_;
  }

 private:
  void listen() {
    check_mpi(MPI_Irecv(beat_.data(), static_cast<int>(beat_.size()), MPI_INT64_T, from_, kBeatTag, comm_, &request_),
              "MPI_Irecv");
  }

  MPI_Comm comm_;
  int from_;
  Beat beat_{};
  MPI_Request request_ = MPI_REQUEST_NULL;
  RankState state_;
  bool said_last_ = false;
  Clock::time_point heard_ = Clock::now();
};

/// Where this rank's beats go. One is on its way at a time, until it is received: a listener that has stopped gets no
/// more.
class Mouth {
 public:
  Mouth(MPI_Comm comm, int to) : comm_(comm), to_(to) {}
  Mouth(Mouth&&) = delete;
  ~Mouth() {
    if (request_ == MPI_REQUEST_NULL || done()) return;
    MPI_Request_free(&request_);
    static_cast<void>(beat_.release());  // MPI may still read it
  }

  /// False when the one before has not been received yet; then it has to be said again.
  bool say(const RankState& state, bool last = false) {
    if (!done()) return false;
    *beat_ = {static_cast<int64_t>(state.phase),
              state.step,
              state.sequence,
              static_cast<int64_t>(state.waiting),
              static_cast<int64_t>(state.age_s * 1e3),
              static_cast<int64_t>(last)};
    check_mpi(MPI_Issend(beat_->data(), static_cast<int>(beat_->size()), MPI_INT64_T, to_, kBeatTag, comm_, &request_),
              "MPI_Issend");
    return true;
  }
  /// Whether all that was said has been received.
  bool done() {
    int complete = 1;
    check_mpi(MPI_Test(&request_, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    return complete != 0;
  }

 private:
  MPI_Comm comm_;
  int to_;
  std::unique_ptr<Beat> beat_ = std::make_unique<Beat>();
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

class Watchdog::Thread {
 public:
  Thread(MpiSession& session, const Deadlines& deadlines, const base::Logger& log)
      : session_(session),
        log_(log),
        comm_(session.world().duplicate()),
        hosts_(all_gather(session.world(), session.host_name())),
        deadlines_(deadlines) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      try {
        watch(stop);
      } catch (const base::Error& error) {
        log_.error("the watchdog has ended: {}", error.what());
      }
    });
  }

  void set_deadlines(const Deadlines& deadlines) {
    const std::lock_guard lock(mutex_);
    deadlines_ = deadlines;
  }

  void enter(Phase phase, int64_t step) {
    const std::lock_guard lock(mutex_);
    own_.phase = phase;
    own_.step = step;
    ++own_.sequence;
    entered_ = Clock::now();
  }

  void finish() {
    enter(Phase::gone, 0);
    barrier(session_.world());
    finishes_ = true;
    thread_.request_stop();
    thread_.join();
  }

 private:
  void watch(const std::stop_token& stop) {
    const MPI_Comm comm = mpi_handle(*comm_);
    const int rank = session_.rank();
    const int size = session_.size();
    // Rank 0 hears all others, rank 1 hears rank 0.
    std::vector<int> others;
    for (int other = 1; rank == 0 && other < size; ++other) others.push_back(other);
    if (rank == 1) others.push_back(0);
    std::vector<std::unique_ptr<Ear>> ears;
    for (const int other : others) ears.push_back(std::make_unique<Ear>(comm, other));
    std::unique_ptr<Mouth> mouth;
    if (size > 1) mouth = std::make_unique<Mouth>(comm, rank == 0 ? 1 : 0);
    others.push_back(rank);

    auto last_beat = Clock::now() - kBetweenBeats;
    auto last_look = Clock::now();
    auto healthy_at = Clock::now();
    const double grace = rank == 0 ? 0.0 : rank == 1 ? kDeputyGrace : kOwnGrace;
    auto back_since = Clock::now() - std::chrono::hours(1);
    while (!stop.stop_requested()) {
      const RankState own = own_state();
      if (mouth && Clock::now() - last_beat >= kBetweenBeats) {
        mouth->say(own);
        last_beat = Clock::now();
      }
      std::vector<RankState> states;
      for (const auto& ear : ears) states.push_back(ear->state());
      states.push_back(own);
      const Deadlines deadlines = current_deadlines();
      const auto late = find_late(states, deadlines, grace);
      // A process that was stopped itself, and has just come back, knows nothing of the others.
      if (seconds_since(last_look) > kStopped) {
        back_since = Clock::now();
        discount(back_since - last_look);
      }
      last_look = Clock::now();
      const std::string failure = session_.failure();
      if (failure.empty()) healthy_at = Clock::now();
      if (!failure.empty() && seconds_since(healthy_at) > kFailureGrace + grace) {
        end_job(rank, "cannot communicate any more: " + failure);
      }
      if (late && seconds_since(back_since) > kSilence) {
        end_job(others[late->rank], describe(states[late->rank], late->missed, deadlines));
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, kBetweenLooks, [] { return false; });
    }
    if (finishes_) {
      take_leave(ears, mouth.get());
    } else if (mouth) {
      mouth->say({.phase = Phase::gone});
    }
  }

  /// All ranks do so, and stay until all that was said is received: MPI may be left then. MPI_Finalize of a rank does
  /// not wait for the others under every launcher (Slurm's PMIx plugin), and who sends to one that has left is ended by
  /// SIGPIPE.
  static void take_leave(const std::vector<std::unique_ptr<Ear>>& ears, Mouth* mouth) {
    bool said = mouth == nullptr;
    for (;;) {
      if (!said) said = mouth->say({.phase = Phase::gone}, /*last=*/true);
      bool all = said && (mouth == nullptr || mouth->done());
      for (const auto& ear : ears) all = ear->heard_last() && all;
      if (all) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// The time in which this process was stopped is not its phase's.
  void discount(Clock::duration stopped) {
    const std::lock_guard lock(mutex_);
    entered_ = std::min(entered_ + stopped, Clock::now());
  }

  Deadlines current_deadlines() {
    const std::lock_guard lock(mutex_);
    return deadlines_;
  }

  RankState own_state() {
    const std::lock_guard lock(mutex_);
    RankState own = own_;
    own.waiting = main_waits_.waiting();
    own.age_s = seconds_since(entered_);
    return own;
  }

  [[noreturn]] void end_job(int rank, const std::string& how) {
    log_.error("rank {} on {} {}", rank, hosts_[static_cast<std::size_t>(rank)], how);
    session_.abort(static_cast<int>(base::ExitCode::communication));
  }

  MpiSession& session_;
  const base::Logger& log_;
  std::unique_ptr<Communicator> comm_;
  std::vector<std::string> hosts_;
  WaitFlag main_waits_;  // of the thread that makes this object
  std::mutex mutex_;
  std::condition_variable_any changed_;
  Deadlines deadlines_;
  RankState own_;
  Clock::time_point entered_ = Clock::now();
  std::atomic<bool> finishes_ = false;
  std::jthread thread_;
};

Watchdog::Watchdog(MpiSession& session, const Deadlines& deadlines, const base::Logger& log)
    : thread_(std::make_unique<Thread>(session, deadlines, log)) {}

Watchdog::~Watchdog() = default;

void Watchdog::set_deadlines(const Deadlines& deadlines) { thread_->set_deadlines(deadlines); }

void Watchdog::finish() { thread_->finish(); }

void Watchdog::enter(Phase phase, int64_t step) { thread_->enter(phase, step); }

}  // namespace ddpm::comm
