#include "comm/watchdog.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/pulse.h"
#include "comm/collectives.h"
#include "comm/heartbeat.h"
#include "comm/mpi_communicator.h"

namespace ddpm::comm {
namespace {

constexpr auto kLongestDeparture = std::chrono::seconds(30);
constexpr auto kBetweenLooks = std::chrono::milliseconds(250);
// An answer takes two looks and the way there and back. It does not come from a rank 0 that has stopped.
constexpr auto kLongestQuestion = std::chrono::seconds(3);
// A rank that ends the job for a reason of its own takes its communicators along first: its reason shall be the one.
constexpr double kFailureGrace = 2.0;

using Clock = SeenTime::Clock;

Clock::duration beats_of(const Phase& phase) {
  const std::chrono::duration<double> seconds(seconds_until_next_word(phase.deadline_s));
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

}  // namespace

class Watchdog::Thread {
 public:
  Thread(MpiSession& session, const Phase& start, const base::Logger& log)
      : session_(session),
        log_(log),
        comm_(session.world().duplicate()),
        hosts_(all_gather(session.world(), session.node_name())),
        own_{.phase = start} {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
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

  bool is_first_to_fail() {
    std::unique_lock lock(mutex_);
    own_.failed = true;
    if (session_.rank() == 0 && own_.speaker < 0) own_.speaker = 0;
    answered_.wait_for(lock, kLongestQuestion, [this] { return agreed_; });
    return own_.speaker < 0 || own_.speaker == session_.rank();
  }

  void finish() {
    enter(Phase::nothing(), -1);
    barrier(session_.world());
    finishes_ = true;
    thread_.request_stop();
    thread_.join();
  }

 private:
  /// Rank 0 and each other one hear of each other.
  struct Peers {
    Peers(MPI_Comm comm, int rank, int size, const Phase& start) {
      for (int other = 1; rank == 0 && other < size; ++other) ranks.push_back(other);
      if (rank != 0) ranks.push_back(0);
      for (const int other : ranks) {
        listeners.push_back(std::make_unique<Listener>(comm, other, start));
        senders.push_back(std::make_unique<Sender>(comm, other));
      }
    }
    std::vector<int> ranks;
    std::vector<std::unique_ptr<Listener>> listeners;
    std::vector<std::unique_ptr<Sender>> senders;
  };

  void run(const std::stop_token& stop) {
    try {
      watch(stop);
    } catch (const base::Error& error) {
      give_up(stop, error.code(), error.what());
    } catch (const std::exception& error) {
      give_up(stop, base::ExitCode::bug, error.what());
    }
  }

  /// A job that nobody watches might hang for as long as it is allowed to run, and the others would take this rank's
  /// silence for its end. At the end of all watching nothing is lost.
  void give_up(const std::stop_token& stop, base::ExitCode code, const char* why) {
    if (stop.stop_requested()) return log_.error("the watchdog has ended by an error: {}", why);
    log_.error("the watchdog cannot go on, which ends the job: {}", why);
    session_.abort(static_cast<int>(code));
  }

  void watch(const std::stop_token& stop) {
    const MPI_Comm comm = session_.size() > 1 ? mpi_handle(*comm_) : MPI_COMM_NULL;
    Peers peers(comm, session_.rank(), session_.size(), own_state().phase);
    while (!stop.stop_requested()) {
      seen_.look(Clock::now());
      std::vector<RankState> states;
      for (const auto& listener : peers.listeners) states.push_back(listener->state(seen_));
      hear_failures(peers, states);
      states.push_back(own_state());
      speak(peers, states);
      judge(peers, states);
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, std::min<Clock::duration>(kBetweenLooks, between_beats_ / 2), [] { return false; });
    }
    if (finishes_) {
      depart(peers);
    } else {
      for (const auto& sender : peers.senders) sender->say({.phase = Phase::nothing()});
    }
  }

  /// Rank 0 decides whose error is said; the others take its word.
  void hear_failures(const Peers& peers, const std::vector<RankState>& others) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < others.size() && own_.speaker < 0; ++i) {
      if (session_.rank() != 0) {
        own_.speaker = others[i].speaker;
      } else if (others[i].failed) {
        own_.speaker = peers.ranks[i];
        log_.hush();  // what comes now comes of the job's end
      }
    }
    if (session_.rank() != 0 && own_.speaker >= 0) agree();
  }

  void agree() {
    agreed_ = true;
    answered_.notify_all();
  }

  /// Tells the others of this rank, now and then; what rank 0 knows of all goes to all.
  void speak(Peers& peers, const std::vector<RankState>& states) {
    RankState own = states.back();
    const bool another_part = own.phase.by_progress && own.sequence != said_sequence_;
    const bool news = another_part || own.failed != said_failed_ || own.speaker != said_speaker_;
    if (!news && Clock::now() - last_beat_ < between_beats_) return;
    for (const RankState& state : states) {
      if (session_.rank() == 0) own.job_age_s = std::min(own.job_age_s, state.progress_age_s());
    }
    bool said = true;
    for (const auto& sender : peers.senders) said = sender->say(own) && said;
    if (said) {
      between_beats_ = beats_of(own.phase);
      said_sequence_ = own.sequence;
      said_failed_ = own.failed;
      said_speaker_ = own.speaker;
      const std::lock_guard lock(mutex_);
      if (session_.rank() == 0 && own.speaker >= 0) agree();
    }
    last_beat_ = Clock::now();
  }

  void judge(const Peers& peers, const std::vector<RankState>& states) {
    const int rank = session_.rank();
    const int turn = std::min(rank, 2);
    const std::string failure = session_.failure();
    if (failure.empty()) healthy_at_ = Clock::now();
    if (!failure.empty() && seen_.seconds(healthy_at_) > kFailureGrace + turn * kBetweenTurns) {
      end_job(rank, "cannot communicate any more: " + failure);
    }
    const auto late = find_late(states, turn);
    if (!late) return;
    const bool is_other = late->rank < peers.ranks.size();
    end_job(is_other ? peers.ranks[late->rank] : rank, describe(states[late->rank], late->missed));
  }

  /// All ranks do so, and stay until all that was said is received: MPI may be left then. MPI_Finalize of a rank does
  /// not wait for the others under every launcher (Slurm's PMIx plugin), and a message to one that has left fails.
  static void depart(Peers& peers) {
    // The watchdog of another rank may have ended by an error, and then says no last word.
    const auto end = Clock::now() + kLongestDeparture;
    while (Clock::now() < end) {
      bool all = true;
      for (const auto& sender : peers.senders) all = sender->said_last() && all;
      for (const auto& listener : peers.listeners) all = listener->heard_last() && all;
      if (all) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  RankState own_state() {
    const std::lock_guard lock(mutex_);
    const int64_t done = main_.count();
    if (own_.phase.by_progress && done != done_) entered_ = Clock::now();
    done_ = done;
    RankState own = own_;
    own.waiting = main_.waiting();
    own.age_s = seen_.seconds(entered_);
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
  base::Pulse main_;  // progress of the thread that makes this object
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::condition_variable answered_;
  bool agreed_ = false;  // whose error is said: rank 0 has told the others, or this rank has heard it
  RankState own_;
  int64_t done_ = 0;
  Clock::time_point entered_ = Clock::now();
  std::atomic<bool> finishes_ = false;
  // Only the watchdog's thread uses what follows.
  Clock::duration between_beats_ = beats_of({});
  Clock::time_point last_beat_ = Clock::now() - between_beats_;
  SeenTime seen_{Clock::now()};
  Clock::time_point healthy_at_ = Clock::now();  // when communication beside MPI had not failed yet
  int64_t said_sequence_ = -1;
  bool said_failed_ = false;
  int said_speaker_ = -1;
  std::jthread thread_;
};

Watchdog::Watchdog(MpiSession& session, const Phase& start, const base::Logger& log)
    : thread_(std::make_unique<Thread>(session, start, log)) {}

Watchdog::~Watchdog() = default;

void Watchdog::amend(const Phase& phase) { thread_->amend(phase); }

Phase Watchdog::phase() const { return thread_->phase(); }

bool Watchdog::is_first_to_fail() { return thread_->is_first_to_fail(); }

void Watchdog::finish() { thread_->finish(); }

void Watchdog::enter(const Phase& phase, int64_t step) { thread_->enter(phase, step); }

}  // namespace ddpm::comm
