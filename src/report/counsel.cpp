#include "report/counsel.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/counted.h"
#include "report/concerns.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

using base::counted;
using base::grouped;

/// A lock is renewed every 30 s: after three of them that have not come, its run may have been killed.
constexpr double kLateLock = 90.0;

bool validation_falls(const Measures& m) {
  return m.validation && m.validation->trend && m.validation->trend->direction == Direction::falling;
}

/// Whether the learning rate has yet to decay.
bool will_decay(const Measures& m) {
  constexpr double kDecayed = 0.3;
  return m.learning_rate_falls && m.learning_rate_share > kDecayed && m.total && m.step < *m.total;
}

/// Whether the loss is flat, and nothing is there, or ahead, that speaks for more steps.
bool brings_little(const Measures& m) {
  return m.loss && m.loss->direction == Direction::flat && !validation_falls(m) && !m.learning_rate_rises &&
         !will_decay(m);
}

/// What to think of more steps of a run that is not finished, when nothing is wrong.
std::string outlook(const Measures& m) {
  if (m.loss && m.loss->direction == Direction::falling)
    return "The loss is still falling, so more steps still bring something.";
  const bool flat = m.loss && m.loss->direction == Direction::flat;
  if (validation_falls(m)) {
    return fmt::format("{} the validation loss is still falling, so more steps still bring something.",
                       flat ? "The training loss is flat, but" : "Whatever the training loss does,");
  }
  if (!m.loss) return "More steps have to be logged before a trend can be seen.";
  if (!flat) return "Whether more steps bring something cannot be told yet.";
  if (m.learning_rate_rises) {
    return "The loss is flat while the learning rate still rises: what more steps bring can be told once that is over.";
  }
  if (will_decay(m)) {
    return fmt::format(
        "The loss is flat, at {} of the highest learning rate: it usually falls once more as the rate decays.",
        share_text(m.learning_rate_share));
  }
  return m.learning_rate_falls ? "The loss is flat, so more steps bring little."
                               : "The loss is flat at a learning rate that is constant, so more steps bring little; a "
                                 "lower rate may bring more.";
}

/// What to think of steps beyond the last one, when nothing is wrong.
std::string outlook_after_the_end(const Measures& m) {
  if (m.loss && m.loss->direction == Direction::falling)
    return "The loss was still falling, so more steps would bring something.";
  if (validation_falls(m)) return "The validation loss was still falling, so more steps would bring something.";
  if (!m.loss) return "Too few steps were logged to tell what more of them would bring.";
  if (!brings_little(m)) return "Whether more steps would bring something cannot be told.";
  return "The loss was flat, so more steps would bring little.";
}

Finding counsel_while_training(const Measures& m) {
  Finding counsel{Tone::good, "Let it run", {}};
  if (const auto concern = concern_of(m)) {
    counsel = *concern;
  } else {
    if (brings_little(m)) counsel = {Tone::watch, "It may be stopped", {}};
    counsel.text = outlook(m);
  }
  if (m.lock_age && *m.lock_age > kLateLock) {
    counsel.tone = std::max(counsel.tone, Tone::watch);
    counsel.text += fmt::format(" But its lock was last renewed {} ago, which a run does every 30 s: it may be dead.",
                                duration_text(*m.lock_age));
  }
  return counsel;
}

/// Says what a finished run has done, and by what it ended.
std::string done_text(const Measures& m) {
  if (!m.has_model) return "All its steps are done.";
  if (!m.total || m.step >= *m.total) return "Its model is written.";
  if (m.patience == 0)
    return fmt::format("Its model is written, after step {} of {}.", grouped(m.step), grouped(*m.total));
  return fmt::format(
      "Its model is written. Early stopping ended it after step {} of {}: {} in a row were no better "
      "than those before.",
      grouped(m.step), grouped(*m.total), counted(m.patience, "validation"));
}

/// Counsel for a run whose model is written.
Finding counsel_when_finished(const Measures& m) {
  const bool whole = m.total && m.step >= *m.total;
  const std::string name = whole ? "Finished" : "Ended early";
  if (const auto concern = concern_of(m)) {
    return {Tone::bad, name + ", but look into it", done_text(m) + " " + concern->text};
  }
  const bool by_patience = !whole && m.patience > 0;
  const std::string then = by_patience ? "" : fmt::format(" {}", outlook_after_the_end(m));
  return {Tone::good, name, done_text(m) + then};
}

std::string lock_text(const Measures& m) {
  if (m.owner_ended) return " The process that holds its lock has ended.";
  return m.lock_age ? fmt::format(" Its lock was last renewed {} ago.", duration_text(*m.lock_age)) : "";
}

/// An error says more than a trend, so that no outlook follows it.
Finding counsel_of_failed(const Measures& m, const std::string& where) {
  const auto concern = concern_of(m);
  const std::string then = concern ? fmt::format(" {}", concern->text) : "";
  const std::string again = !m.refusal.empty()  ? "be refused, since " + m.refusal
                            : m.checkpoint_step ? "go on from the newest checkpoint"
                                                : "begin anew, since there is no whole checkpoint";
  return {
      Tone::bad, "It failed",
      fmt::format("It ended after {} with an error: {}. The same command would {}.{}", where, m.failure, again, then)};
}

Finding counsel_of_interrupted(const Measures& m) {
  const std::string where = fmt::format("step {}{}", grouped(m.step), m.total ? " of " + grouped(*m.total) : "");
  if (!m.failure.empty()) return counsel_of_failed(m, where);
  const auto concern = concern_of(m);
  if (m.total && m.step >= *m.total) {
    return {Tone::watch, "Its model is not written",
            fmt::format("All {} are done; the same command writes the model.{} {}", counted(*m.total, "step"),
                        lock_text(m), concern ? concern->text : outlook_after_the_end(m))};
  }
  const std::string again = !m.refusal.empty()  ? "is refused, since " + m.refusal
                            : m.checkpoint_step ? "continues it"
                                                : "begins it anew, since there is no whole checkpoint";
  return {concern || !m.refusal.empty() ? Tone::bad : Tone::watch, "Nobody trains it",
          fmt::format("It ended at {}, and the same command {}.{} {}", where, again, lock_text(m),
                      concern ? concern->text : outlook(m))};
}

}  // namespace

Finding counsel_of(const Measures& m) {
  switch (m.phase) {
    case Phase::training:
      return counsel_while_training(m);
    case Phase::finished:
      return counsel_when_finished(m);
    case Phase::interrupted:
      break;
  }
  return counsel_of_interrupted(m);
}

}  // namespace ddpm::report
