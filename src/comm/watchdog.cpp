#include "comm/watchdog.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/host_name.h"
#include "base/pulse.h"
#include "comm/collectives.h"
#include "comm/mpi_communicator.h"
#include "comm/wait_flag.h"

namespace ddpm::comm {
namespace {

constexpr int kBeatTag = 1;
constexpr auto kLongestLeave = std::chrono::seconds(30);
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

/// A message, sent as it lies in memory: what a rank says of itself. Texts are cut to their fields.
struct Beat {
  std::array<char, 64> name{};
  std::array<char, 64> key{};
  double deadline_s = 0.0;
  double age_s = 0.0;
  double job_age_s = 0.0;
  int64_t step = -1;
  int64_t sequence = 0;
  bool by_progress = false;
  bool gone = false;
  bool waiting = false;
  bool last = false;

  static Beat of(const RankState& state, bool last) {
    Beat beat;
    state.phase.name.copy(beat.name.data(), beat.name.size() - 1);
    state.phase.key.copy(beat.key.data(), beat.key.size() - 1);
    beat.deadline_s = state.phase.deadline_s;
    beat.age_s = state.age_s;
    beat.job_age_s = state.job_age_s;
    beat.step = state.step;
    beat.sequence = state.sequence;
    beat.by_progress = state.phase.by_progress;
    beat.gone = state.phase.gone;
    beat.waiting = state.waiting;
    beat.last = last;
    return beat;
  }
  [[nodiscard]] RankState state() const {
    return {.phase = {.name = name.data(),
                      .deadline_s = deadline_s,
                      .key = key.data(),
                      .by_progress = by_progress,
                      .gone = gone},
            .step = step,
            .sequence = sequence,
            .waiting = waiting,
            .age_s = age_s,
            .job_age_s = job_age_s};
  }
};

/// What one other rank says: a receive that is always open.
class Ear {
 public:
  /// `start`: what the other rank does until it says something else.
  Ear(MPI_Comm comm, int from, Phase start) : comm_(comm), from_(from), state_{.phase = std::move(start)} { listen(); }
  Ear(Ear&&) = delete;
  /// Local: a receive that nothing came for is cancelled.
  ~Ear() {
    if (MPI_Cancel(&request_) == MPI_SUCCESS) MPI_Request_free(&request_);
  }

  RankState state() {
    int arrived = 1;
    while (MPI_Test(&request_, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS && arrived != 0) {
      state_ = beat_.state();
      said_last_ = beat_.last;
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
    check_mpi(MPI_Irecv(&beat_, sizeof(Beat), MPI_BYTE, from_, kBeatTag, comm_, &request_), "MPI_Irecv");
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
    *beat_ = Beat::of(state, last);
    check_mpi(MPI_Issend(beat_.get(), sizeof(Beat), MPI_BYTE, to_, kBeatTag, comm_, &request_), "MPI_Issend");
    return true;
  }
  /// Says that this is the last word, once the one before has been received. Whether it has been received itself.
  bool said_last() {
    if (!said_last_) said_last_ = say({.phase = Phase::nothing()}, /*last=*/true);
    return said_last_ && done();
  }

 private:
  bool done() {
    int complete = 1;
    check_mpi(MPI_Test(&request_, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    return complete != 0;
  }

  MPI_Comm comm_;
  int to_;
  std::unique_ptr<Beat> beat_ = std::make_unique<Beat>();
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool said_last_ = false;
};

}  // namespace

class Watchdog::Thread {
 public:
  Thread(MpiSession& session, const Phase& start, const base::Logger& log)
      : session_(session),
        log_(log),
        comm_(session.world().duplicate()),
        hosts_(all_gather(session.world(), base::node_name())),
        own_{.phase = start} {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      try {
        watch(stop);
      } catch (const base::Error& error) {
        log_.error("the watchdog has ended: {}", error.what());
      }
    });
  }

  void amend(const Phase& phase) {
    const std::lock_guard lock(mutex_);
    own_.phase = phase;
  }

  void enter(const Phase& phase, int64_t step) {
    const std::lock_guard lock(mutex_);
    own_.phase = phase;
    own_.step = step;
    ++own_.sequence;
    entered_ = Clock::now();
  }

  Phase phase() {
    const std::lock_guard lock(mutex_);
    return own_.phase;
  }

  void finish() {
    enter(Phase::nothing(), -1);
    barrier(session_.world());
    finishes_ = true;
    thread_.request_stop();
    thread_.join();
  }

 private:
  void watch(const std::stop_token& stop) {
    const int rank = session_.rank();
    const int size = session_.size();
    const MPI_Comm comm = size > 1 ? mpi_handle(*comm_) : MPI_COMM_NULL;
    const Phase start = own_state().phase;
    // Rank 0 and each other one hear of each other.
    std::vector<int> others;
    for (int other = 1; rank == 0 && other < size; ++other) others.push_back(other);
    if (rank != 0) others.push_back(0);
    std::vector<std::unique_ptr<Ear>> ears;
    std::vector<std::unique_ptr<Mouth>> mouths;
    for (const int other : others) {
      ears.push_back(std::make_unique<Ear>(comm, other, start));
      mouths.push_back(std::make_unique<Mouth>(comm, other));
    }
    others.push_back(rank);

    auto last_beat = Clock::now() - kBetweenBeats;
    int64_t said_sequence = -1;
    auto last_look = Clock::now();
    auto healthy_at = Clock::now();
    const double grace = rank == 0 ? 0.0 : rank == 1 ? kDeputyGrace : kOwnGrace;
    auto back_since = Clock::now() - std::chrono::hours(1);
    while (!stop.stop_requested()) {
      std::vector<RankState> states;
      for (const auto& ear : ears) states.push_back(ear->state());
      states.push_back(own_state());
      RankState own = states.back();
      const bool another_part = own.phase.by_progress && own.sequence != said_sequence;
      if (another_part || Clock::now() - last_beat >= kBetweenBeats) {
        // What rank 0 knows of all goes to all.
        for (const RankState& state : states) {
          if (rank == 0) own.job_age_s = std::min(own.job_age_s, state.progress_age_s());
        }
        bool said = true;
        for (const auto& mouth : mouths) said = mouth->say(own) && said;
        if (said) said_sequence = own.sequence;
        last_beat = Clock::now();
      }
      const auto late = find_late(states, grace);
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
        end_job(others[late->rank], describe(states[late->rank], late->missed));
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, kBetweenLooks, [] { return false; });
    }
    if (finishes_) {
      take_leave(ears, mouths);
    } else {
      for (const auto& mouth : mouths) mouth->say({.phase = Phase::nothing()});
    }
  }

  /// All ranks do so, and stay until all that was said is received: MPI may be left then. MPI_Finalize of a rank does
  /// not wait for the others under every launcher (Slurm's PMIx plugin), and a message to one that has left fails.
  static void take_leave(const std::vector<std::unique_ptr<Ear>>& ears,
                         const std::vector<std::unique_ptr<Mouth>>& mouths) {
    // The watchdog of another rank may have ended by an error, and then says no last word.
    const auto end = Clock::now() + kLongestLeave;
    while (Clock::now() < end) {
      bool all = true;
      for (const auto& mouth : mouths) all = mouth->said_last() && all;
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

  RankState own_state() {
    const std::lock_guard lock(mutex_);
    const int64_t done = main_moves_.count();
    if (own_.phase.by_progress && done != done_) entered_ = Clock::now();
    done_ = done;
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
  WaitFlag main_waits_;     // of the thread that makes this object,
  base::Pulse main_moves_;  // and so is this
  std::mutex mutex_;
  std::condition_variable_any changed_;
  RankState own_;
  int64_t done_ = 0;
  Clock::time_point entered_ = Clock::now();
  std::atomic<bool> finishes_ = false;
  std::jthread thread_;
};

Watchdog::Watchdog(MpiSession& session, const Phase& start, const base::Logger& log)
    : thread_(std::make_unique<Thread>(session, start, log)) {}

Watchdog::~Watchdog() = default;

void Watchdog::amend(const Phase& phase) { thread_->amend(phase); }

Phase Watchdog::phase() const { return thread_->phase(); }

void Watchdog::finish() { thread_->finish(); }

void Watchdog::enter(const Phase& phase, int64_t step) { thread_->enter(phase, step); }

}  // namespace ddpm::comm
