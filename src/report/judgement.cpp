#include "report/judgement.h"

#include <cmath>
#include <optional>

#include "base/counted.h"
#include "base/named.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

using base::counted;
using base::grouped;

/// Below this share of its own start a run has become slow.
constexpr double kSlow = 0.85;
/// Above this share of waiting for images, reading is what limits a run.
constexpr double kMuchWaiting = 0.15;
/// Above this share of skipped steps something is wrong with the gradients.
constexpr double kManySkipped = 0.05;
/// Validations without an improvement after which a rising loss counts.
constexpr int64_t kPatience = 3;

std::string steps_text(const Trend& trend) {
  return fmt::format("over steps {} to {}", grouped(trend.first), grouped(trend.last));
}

Finding loss_finding(const Measures& m) {
  if (!m.loss) return {Tone::note, "Loss", "Too few steps were logged to tell a trend of the loss."};
  const Trend& t = *m.loss;
  const std::string numbers = fmt::format("{} {}; its mean there is {} ± {}", change_text(t.change), steps_text(t),
                                          number_text(t.level.value), number_text(t.level.high - t.level.value, 2));
  switch (t.direction) {
    case Direction::falling:
      return {Tone::good, "Loss", fmt::format("The training loss is still falling: {}.", numbers)};
    case Direction::rising:
      return {Tone::bad, "Loss", fmt::format("The training loss is rising: {}.", numbers)};
    case Direction::flat:
      return {Tone::watch, "Loss", fmt::format("The training loss is flat: {}.", numbers)};
    case Direction::unknown:
      break;
  }
  return {Tone::note, "Loss",
          fmt::format("Whether the training loss still falls cannot be told from numbers that scatter so much: {}.",
                      numbers)};
}

bool overfits(const Measures& m) {
  if (!m.validation || !m.validation->gap || !m.validation->gap_at_best) return false;
  const Validations& v = *m.validation;
  return v.since_best >= kPatience && v.trend && v.trend->direction == Direction::rising && v.last > v.best &&
         v.gap->low > v.gap_at_best->high;
}

std::string gap_text(const Interval& gap) {
  return fmt::format("{} ± {}", number_text(gap.value, 3), number_text(gap.high - gap.value, 2));
}

Finding validation_finding(const Measures& m) {
  if (!m.validation) {
    return {Tone::note, "Validation",
            "Nothing was validated, so overfitting cannot be seen (data.validation and validation.every_steps)."};
  }
  const Validations& v = *m.validation;
  std::string text =
      fmt::format("The validation loss is {} after {}; the best, {}, is that of step {}", number_text(v.last),
                  counted(v.count, "validation"), number_text(v.best), grouped(v.best_step));
  text += v.since_best == 0 ? ", the last one." : fmt::format(", {} ago.", counted(v.since_best, "validation"));
  if (v.trend) {
    text += fmt::format(" {}: it is {}.", change_text(v.trend->change) + " " + steps_text(*v.trend),
                        v.trend->direction == Direction::unknown ? "neither clearly falling nor rising"
                                                                 : std::string(base::name_of(v.trend->direction)));
  }
  const bool old = v.since_best >= kPatience;
  return {overfits(m) ? Tone::bad : old ? Tone::watch : Tone::good, "Validation", text};
}

void add_gap(const Measures& m, std::vector<Finding>& findings) {
  if (!m.validation || !m.validation->gap || !m.validation->gap_at_best) return;
  const Validations& v = *m.validation;
  findings.push_back({overfits(m) ? Tone::bad : Tone::note, "Overfitting",
                      fmt::format("The validation loss less the training loss around it is {} now; it was {} at the "
                                  "best step. A gap that grows while the training loss falls is overfitting.",
                                  gap_text(*v.gap), gap_text(*v.gap_at_best))});
}

bool many_skipped(const Measures& m) {
  return m.recent > 0 && static_cast<double>(m.skipped) > kManySkipped * static_cast<double>(m.recent);
}

Finding step_finding(const Measures& m) {
  const std::string scale =
      m.loss_scale == 1.0 ? "" : fmt::format(" The loss scale is {}.", number_text(m.loss_scale, 6));
  if (m.skipped == 0) return {Tone::good, "Steps", "No step of the last ones was skipped." + scale};
  return {many_skipped(m) ? Tone::bad : Tone::note, "Steps",
          fmt::format("{} of the last {} were skipped, since their gradient was not finite.{}", grouped(m.skipped),
                      counted(m.recent, "logged step"), scale)};
}

void add_speed(const Measures& m, std::vector<Finding>& findings) {
  if (!m.images_per_second) return;
  std::string text = fmt::format("{} images per second", rate_text(*m.images_per_second));
  Tone tone = Tone::good;
  if (m.first_images_per_second && *m.first_images_per_second > 0.0) {
    const double share = *m.images_per_second / *m.first_images_per_second;
    if (share < kSlow) tone = Tone::watch;
    text += fmt::format(", {} of what it was first on this hardware", share_text(share));
  }
  findings.push_back({tone, "Throughput", text + "."});
  if (!m.data_wait) return;
  const bool much = *m.data_wait > kMuchWaiting;
  findings.push_back(
      {much ? Tone::watch : Tone::good, "Waiting",
       fmt::format("{} of the time was spent waiting for images, {} for other ranks{}.", share_text(*m.data_wait),
                   share_text(m.comm_wait.value_or(0.0)), much ? ": reading is what limits the speed" : "")});
}

Finding checkpoint_finding(const Measures& m) {
  if (!m.checkpoint_step) {
    const std::string after = m.refusal.empty() ? "if the run is killed, it begins anew"
                                                : "another start would be refused, since " + m.refusal;
    return {m.phase == Phase::training ? Tone::watch : Tone::bad, "Checkpoint",
            fmt::format("There is no whole checkpoint: {}.", after)};
  }
  const int64_t since = std::max<int64_t>(0, m.step - *m.checkpoint_step);
  std::string text = fmt::format("The newest whole checkpoint is of step {}, {} old", grouped(*m.checkpoint_step),
                                 duration_text(*m.checkpoint_age));
  if (m.phase == Phase::training) {
    text += since == 0 ? "; nothing is lost by stopping now."
                       : fmt::format("; {} would be lost by a kill now.", counted(since, "step"));
  } else {
    text += since == 0 ? "." : fmt::format("; the {} after it are lost.", counted(since, "step"));
  }
  return {since == 0 ? Tone::good : Tone::note, "Checkpoint", text};
}

Finding progress_finding(const Measures& m) {
  std::string text = m.total ? fmt::format("Step {} of {} ({})", grouped(m.step), grouped(*m.total),
                                           share_text(static_cast<double>(m.step) / static_cast<double>(*m.total)))
                             : fmt::format("Step {}", grouped(m.step));
  if (m.seconds_left)
    text += fmt::format("; the others take {} at the speed of the last ones", duration_text(*m.seconds_left));
  return {Tone::note, "Progress", text + "."};
}

/// What is wrong, whether somebody trains or not; the worst first.
std::optional<Finding> concern_of(const Measures& m) {
  if (many_skipped(m))
    return Finding{Tone::bad, "Look into it",
                   "Many steps are skipped: look at the gradients and the precision before going on."};
  if (overfits(m)) {
    return Finding{
        Tone::bad, "Stop it",
        fmt::format("It overfits: the validation loss has been rising since step {}, whose checkpoint is kept.",
                    grouped(m.validation->best_step))};
  }
  if (m.loss && m.loss->direction == Direction::rising) {
    return Finding{Tone::bad, "Look into it",
                   "The training loss is rising: go back to an earlier checkpoint, or lower the learning rate."};
  }
  return std::nullopt;
}

/// Whether the loss is flat, and nothing is ahead that would make it fall.
bool brings_little(const Measures& m) {
  constexpr double kDecayed = 0.3;
  const bool goes_on = m.total && m.step < *m.total;
  const bool decays = m.learning_rate_falls && m.learning_rate_share > kDecayed && goes_on;
  return m.loss && m.loss->direction == Direction::flat && !decays;
}

/// What to think of more steps, when nothing is wrong.
std::string outlook(const Measures& m) {
  if (!m.loss) return "More steps have to be logged before a trend can be seen.";
  switch (m.loss->direction) {
    case Direction::falling:
      return "The loss is still falling, so more steps still bring something.";
    case Direction::flat:
      break;
    case Direction::rising:
    case Direction::unknown:
      return "Whether more steps bring something cannot be told yet.";
  }
  if (!brings_little(m)) {
    return fmt::format(
        "The loss is flat, at {} of the highest learning rate: it usually falls once more as the rate decays.",
        share_text(m.learning_rate_share));
  }
  return m.learning_rate_falls ? "The loss is flat, so more steps bring little."
                               : "The loss is flat at a learning rate that is constant, so more steps bring little; a "
                                 "lower rate may bring more.";
}

Finding counsel_while_training(const Measures& m) {
  if (const auto concern = concern_of(m)) return *concern;
  if (brings_little(m)) return {Tone::watch, "It may be stopped", outlook(m)};
  return {Tone::good, "Let it run", outlook(m)};
}

/// Counsel for a run whose model is written.
Finding counsel_when_finished(const Measures& m) {
  const std::string name = m.total && m.step >= *m.total ? "Finished" : "Ended early";
  const std::string done = m.has_model ? "Its model is written." : "All its steps are done.";
  if (const auto concern = concern_of(m)) {
    return {Tone::bad, name + ", but look into it", done + " " + concern->text};
  }
  return {Tone::good, name, done + " " + outlook(m)};
}

Finding counsel_of_interrupted(const Measures& m) {
  const std::string where = fmt::format("step {}{}", grouped(m.step), m.total ? " of " + grouped(*m.total) : "");
  const auto concern = concern_of(m);
  const std::string next = concern ? concern->text : outlook(m);
  if (!m.failure.empty()) {
    const std::string again = !m.refusal.empty()  ? "be refused, since " + m.refusal
                              : m.checkpoint_step ? "go on from the newest checkpoint"
                                                  : "begin anew, since there is no whole checkpoint";
    return {Tone::bad, "It failed",
            fmt::format("It ended after {} with an error: {}. The same command would {}. {}", where, m.failure, again,
                        next)};
  }
  const std::string lock =
      m.lock_age ? fmt::format(" Its lock was last renewed {} ago.", duration_text(*m.lock_age)) : "";
  if (m.total && m.step >= *m.total) {
    return {
        Tone::watch, "Its model is not written",
        fmt::format("All {} are done; the same command writes the model.{} {}", counted(*m.total, "step"), lock, next)};
  }
  const std::string again = !m.refusal.empty()  ? "is refused, since " + m.refusal
                            : m.checkpoint_step ? "continues it"
                                                : "begins it anew, since there is no whole checkpoint";
  return {concern || !m.refusal.empty() ? Tone::bad : Tone::watch, "Nobody trains it",
          fmt::format("It ended at {}, and the same command {}.{} {}", where, again, lock, next)};
}

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

}  // namespace

Judgement judge(const Measures& measures) {
  Judgement judgement{.counsel = counsel_of(measures), .findings = {}};
  judgement.findings.push_back(progress_finding(measures));
  judgement.findings.push_back(loss_finding(measures));
  judgement.findings.push_back(validation_finding(measures));
  add_gap(measures, judgement.findings);
  judgement.findings.push_back(step_finding(measures));
  add_speed(measures, judgement.findings);
  judgement.findings.push_back(checkpoint_finding(measures));
  return judgement;
}

}  // namespace ddpm::report
