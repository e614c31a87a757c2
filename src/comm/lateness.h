// Who is to blame when a job hangs: pure arithmetic over what is known of each rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"

namespace ddpm::comm {

/// What a rank's main thread is doing, and how long it may. All ranks go through the same phases in the same order.
struct Phase {
  std::string name;          ///< for people: "reading images"
  double deadline_s = 0.0;   ///< seconds that a rank may stay in it; 0: for ever
  std::string key;           ///< what sets the deadline: a key of the configuration, an option, a variable
  bool by_progress = false;  ///< the deadline counts from the last sign of progress (base/pulse.h)
  bool gone = false;         ///< nothing that others could wait for: never to blame

  static Phase nothing() { return {.name = "nothing any more", .key = {}, .gone = true}; }
};

/// What a rank said of itself, and when.
struct RankState {
  Phase phase;
  int64_t step = -1;      ///< training step; -1: the phase is not one of a step
  int64_t sequence = 0;   ///< phases that it has entered so far
  bool waiting = false;   ///< waits for other ranks, in a collective of ours (in one of HDF5 it is not known)
  double age_s = 0.0;     ///< time in its phase, or since its last progress in it, when it said so
  double silent_s = 0.0;  ///< time since
  double job_age_s = std::numeric_limits<double>::infinity();  ///< the least age of any rank that it knew of then
  bool failed = false;  ///< it has an error that ends the job, and asks whether to say it
  int speaker = -1;     ///< rank 0 says: whose error is the one that is said

  [[nodiscard]] double in_phase_s() const { return age_s + silent_s; }
  /// What of in_phase_s() is sure: a rank that speaks may have left the phase since its last word.
  [[nodiscard]] double surely_in_phase_s() const;
  /// A living process whose main thread waits for other ranks.
  [[nodiscard]] bool only_waits() const;
  /// How long ago it, or a rank that it knows of, got something done; infinite in a phase that does not count progress.
  [[nodiscard]] double progress_age_s() const;
};

/// Seconds without a word after which a rank's process counts as stopped or gone.
inline constexpr double kSilence = 5.0;

/// Seconds after which a living rank speaks again that has said that it is in a phase of this deadline: four times in
/// the deadline, since until then others judge it by its last word, and every second at least.
double seconds_until_next_word(double deadline_s);

/// The longest time between two looks of a watchdog that counts as a whole, in seconds.
inline constexpr double kLongestLook = 2.0;

/// The time that a watchdog has seen go by: of the time between two of its looks, kLongestLook at most. A process that
/// was stopped (SIGSTOP, a suspended job) has heard nobody meanwhile, others may have waited for it, and it accuses
/// nobody for that. On a machine that is merely loaded the watchdog looks seldom, and comes to its verdict all the
/// same, after deadline_s / kLongestLook looks at the latest. The two cannot be told apart; so each long pause counts,
/// but for no more than this.
class SeenTime {
 public:
  using Clock = base::Clock;

  explicit SeenTime(Clock::time_point start) : last_look_(start) {}
  void look(Clock::time_point now);
  /// Seconds from `then` to the last look, without what the watchdog has not seen of them; 0 for a later `then`. What
  /// has gone by since that look may hold a pause, which only the next one can tell.
  [[nodiscard]] double seconds(Clock::time_point then) const;

 private:
  struct Pause {
    Clock::time_point end;
    Clock::duration unseen;
  };
  Clock::time_point last_look_;
  std::deque<Pause> pauses_;  // the newest at the end
};

/// The ranks accuse one after the other, so that one of them speaks: rank 0 first, then rank 1, then anybody. These are
/// the seconds between two turns; for a shorter deadline they are as many as its own.
inline constexpr double kBetweenTurns = 3.0;

struct Verdict {
  std::size_t rank = 0;  ///< index of the one to blame
  Phase missed;          ///< whose deadline a rank has passed: its own, or that of one that waits for it
};

/// Once a rank is past its deadline by `turn` times the seconds between turns; where progress counts, one that only
/// waits is not, as long as any rank gets something done. To blame is one that is silent; otherwise the one that has
/// entered the fewest phases, since the others wait for it; of equals one that does not wait for others itself, and of
/// those the one that is in its phase for longest.
std::optional<Verdict> find_late(std::span<const RankState> ranks, int turn);

/// "is late: 31 s in forward and backward at step 5, silent for 30 s; fault.step_timeout_s = 30", or
/// "is late: 901 s without progress in data create; DDPM_PROGRESS_TIMEOUT_S = 900"
std::string describe(const RankState& late, const Phase& missed);

}  // namespace ddpm::comm
