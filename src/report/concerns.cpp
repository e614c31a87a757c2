#include "report/concerns.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

using base::counted;
using base::grouped;

std::string divergence_text(const Measures& m) {
  const std::string checkpoint =
      m.before_divergence
          ? fmt::format("Go back to the checkpoint of step {}, the newest from before", grouped(*m.before_divergence))
          : "No checkpoint from before is there: begin anew";
  return fmt::format(
      "The training loss has diverged: since about step {} it has stayed at {} times its lowest level or more. {}, and "
      "lower the learning rate.",
      grouped(m.divergence->step), number_text(m.divergence->level / m.divergence->lowest, 2), checkpoint);
}

/// Says of which step the best validation is, and whether one can go back to it.
std::string best_text(const Measures& m) {
  return fmt::format("step {}, whose checkpoint is {}", grouped(m.validation->best_step),
                     m.best_kept ? "kept" : "not there any more");
}

}  // namespace

bool has_no_finite_loss(const Measures& m) {
  constexpr int64_t kLeast = 3;
  return m.unfinite.count >= kLeast;
}

bool many_skipped(const Measures& m) {
  constexpr double kMany = 0.05;
  return m.recent > 0 && static_cast<double>(m.skipped) > kMany * static_cast<double>(m.recent);
}

bool surely_rises(const Measures& m) {
  if (!m.loss || m.loss->direction != Direction::rising) return false;
  const Interval& change = m.loss->change;
  return change.value >= 2.0 * (change.value - change.low);
}

bool overfits(const Measures& m) {
  if (!m.validation || !m.validation->gap || !m.validation->gap_at_best) return false;
  const Validations& v = *m.validation;
  return v.since_best >= kWithoutImprovement && v.trend && v.trend->direction == Direction::rising && v.last > v.best &&
         v.gap->low > v.gap_at_best->high;
}

bool validation_is_far(const Measures& m) {
  if (!m.validation) return false;
  const Validations& v = *m.validation;
  return v.since_best >= kWithoutImprovement && v.best > 0.0 && v.least_lately > kFarAbove * v.best;
}

std::optional<Finding> concern_of(const Measures& m) {
  if (has_no_finite_loss(m)) {
    return Finding{Tone::bad, "Look into it",
                   fmt::format("No finite loss was logged since step {}: look at the gradients and the precision, and "
                               "go back to a checkpoint from before.",
                               grouped(m.unfinite.first))};
  }
  if (many_skipped(m))
    return Finding{Tone::bad, "Look into it",
                   "Many steps are skipped: look at the gradients and the precision before going on."};
  if (m.divergence) return Finding{Tone::bad, "Stop it", divergence_text(m)};
  if (overfits(m)) {
    return Finding{Tone::bad, "Stop it",
                   fmt::format("It overfits: the validation loss has been rising since {}.", best_text(m))};
  }
  if (surely_rises(m)) {
    return Finding{Tone::bad, "Look into it",
                   "The training loss is rising: go back to an earlier checkpoint, or lower the learning rate."};
  }
  if (validation_is_far(m)) {
    return Finding{Tone::bad, "Look into it",
                   fmt::format("For {} the validation loss has been {} times its best or more: the best is that of {}.",
                               counted(kWithoutImprovement, "validation"),
                               number_text(m.validation->least_lately / m.validation->best, 2), best_text(m))};
  }
  return std::nullopt;
}

}  // namespace ddpm::report
