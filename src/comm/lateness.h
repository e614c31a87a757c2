// Who is to blame when a job hangs: pure arithmetic over what is known of each rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddpm::comm {

/// What a rank's main thread is doing. All ranks go through the same phases in the same order: those of a training, or
/// those of `ddpm doctor` (facts, links, reduction, folder).
enum class Phase : uint8_t {
  start,
  images,
  model,
  gradients,
  update,
  checkpoint,
  validation,
  finish,
  gone,
  facts,
  links,
  reduction,
  folder
};

/// For people: "reading images".
const char* name_of(Phase phase);

/// Seconds that a rank may stay in a phase; 0: for ever.
struct Deadlines {
  double init_s = 0.0;        ///< start
  double step_s = 0.0;        ///< images, model, gradients, update: each of them
  double checkpoint_s = 0.0;  ///< checkpoint, finish
  double validation_s = 0.0;  ///< validation
  double check_s = 0.0;       ///< facts, links, reduction, folder: each of them
  const char* init_key = "fault.init_timeout_s";

  [[nodiscard]] double of(Phase phase) const;
  /// The configuration key, or the option of the command line, that sets it.
  [[nodiscard]] const char* key_of(Phase phase) const;
};

/// What a rank said of itself, and when.
struct RankState {
  Phase phase = Phase::start;
  int64_t step = 0;
  int64_t sequence = 0;   ///< phases that it has entered so far
  bool waiting = false;   ///< for other ranks, in a collective of ours (in one of HDF5 it is not known)
  double age_s = 0.0;     ///< time in its phase when it said so
  double silent_s = 0.0;  ///< time since

  [[nodiscard]] double in_phase_s() const { return age_s + silent_s; }
};

/// Seconds without a word after which a rank's process counts as stopped or gone. A living one speaks every second.
inline constexpr double kSilence = 5.0;

struct Verdict {
  std::size_t rank = 0;         ///< index of the one to blame
  Phase missed = Phase::start;  ///< whose deadline a rank has passed: its own, or that of one that waits for it
};

/// Once a rank is past its deadline by `grace_s`. To blame is one that is silent; else the one that has entered the
/// fewest phases, since the others wait for it; of equals one that does not wait for others itself, and of those the
/// one that is in its phase for longest.
std::optional<Verdict> find_late(std::span<const RankState> ranks, const Deadlines& deadlines, double grace_s);

/// "is late: 31 s in forward and backward at step 5, silent for 30 s; fault.step_timeout_s = 30"
std::string describe(const RankState& late, Phase missed, const Deadlines& deadlines);

}  // namespace ddpm::comm
