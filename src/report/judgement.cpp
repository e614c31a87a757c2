#include "report/judgement.h"

#include <cmath>
#include <optional>

#include "base/counted.h"
#include "base/named.h"
#include "report/concerns.h"
#include "report/counsel.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

using base::counted;
using base::grouped;

/// Below this share of its own start a run has become slow.
constexpr double kSlow = 0.85;
/// Above this share of waiting for images, reading is what limits a run.
constexpr double kMuchWaiting = 0.15;

std::string steps_text(const Trend& trend) {
  return fmt::format("over steps {} to {}", grouped(trend.first), grouped(trend.last));
}

Finding unfinite_finding(const Unfinite& end) {
  const std::string before =
      end.last_finite ? fmt::format("; the last one before them is that of step {}", grouped(*end.last_finite)) : "";
  return {Tone::bad, "Loss",
          fmt::format("None of the last {} is finite{}.", counted(end.count, "logged loss"), before)};
}

Finding loss_finding(const Measures& m) {
  if (has_no_finite_loss(m)) return unfinite_finding(m.unfinite);
  if (!m.loss) {
    const std::string since =
        m.other_images > 0
            ? fmt::format(" since step {}, up to which other images were trained on", grouped(m.other_images))
            : "";
    return {Tone::note, "Loss", fmt::format("Too few steps were logged{} to tell a trend of the loss.", since)};
  }
  const Trend& t = *m.loss;
  const std::string numbers = fmt::format("{} {}; its mean there is {} ± {}", change_text(t.change), steps_text(t),
                                          number_text(t.level.value), number_text(t.level.high - t.level.value, 2));
  if (m.divergence) {
    return {Tone::bad, "Loss",
            fmt::format("The training loss has diverged: its lowest level was {}, and since about step {} it has been "
                        "{} or more. Its change now is {}.",
                        number_text(m.divergence->lowest), grouped(m.divergence->step),
                        number_text(m.divergence->level), numbers)};
  }
  switch (t.direction) {
    case Direction::falling:
      return {Tone::good, "Loss", fmt::format("The training loss is still falling: {}.", numbers)};
    case Direction::rising:
      return {surely_rises(m) ? Tone::bad : Tone::watch, "Loss",
              fmt::format("The training loss is rising: {}.", numbers)};
    case Direction::flat:
      return {Tone::watch, "Loss", fmt::format("The training loss is flat: {}.", numbers)};
    case Direction::unknown:
      break;
  }
  return {Tone::note, "Loss",
          fmt::format("Whether the training loss still falls cannot be told from numbers that scatter so much: {}.",
                      numbers)};
}

std::string gap_text(const Interval& gap) {
  return fmt::format("{} ± {}", number_text(gap.value, 3), number_text(gap.high - gap.value, 2));
}

Finding validation_finding(const Measures& m) {
  if (!m.validation && m.other_validation > 0) {
    return {Tone::note, "Validation",
            fmt::format("Nothing was validated since step {}, up to which it was on another set.",
                        grouped(m.other_validation))};
  }
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
  if (m.other_validation > 0) {
    text += fmt::format(" What was validated up to step {} is of another set, and not counted.",
                        grouped(m.other_validation));
  }
  const bool old = v.since_best >= kWithoutImprovement;
  return {overfits(m) || validation_is_far(m) ? Tone::bad : old ? Tone::watch : Tone::good, "Validation", text};
}

void add_gap(const Measures& m, std::vector<Finding>& findings) {
  if (!m.validation || !m.validation->gap || !m.validation->gap_at_best) return;
  const Validations& v = *m.validation;
  findings.push_back({overfits(m) ? Tone::bad : Tone::note, "Overfitting",
                      fmt::format("The validation loss less the training loss around it is {} now; it was {} at the "
                                  "best step. A gap that grows while the training loss falls is overfitting.",
                                  gap_text(*v.gap), gap_text(*v.gap_at_best))});
}

Finding step_finding(const Measures& m) {
  const std::string scale =
      m.loss_scale == 1.0 ? "" : fmt::format(" The loss scale is {}.", number_text(m.loss_scale, 6));
  if (m.recent == 0) return {Tone::note, "Steps", "No logged step can be read, so nothing is known of skipped ones."};
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
  if (m.seconds_left && m.phase != Phase::finished)
    text += fmt::format("; the others take {} at the speed of the last ones", duration_text(*m.seconds_left));
  if (m.log_age && m.phase == Phase::training)
    text += fmt::format("; the last step was logged {} ago", duration_text(*m.log_age));
  return {Tone::note, "Progress", text + "."};
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
