#include "comm/lateness.h"

#include <algorithm>

#include <fmt/format.h>

namespace ddpm::comm {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::start:
      return "starting";
    case Phase::images:
      return "reading images";
    case Phase::model:
      return "forward and backward";
    case Phase::gradients:
      return "summing gradients";
    case Phase::update:
      return "the update";
    case Phase::checkpoint:
      return "the checkpoint";
    case Phase::validation:
      return "validation";
    case Phase::finish:
      return "writing the model";
    case Phase::gone:
      return "nothing any more";
    case Phase::facts:
      return "looking at its host";
    case Phase::links:
      return "messages between two ranks";
    case Phase::reduction:
      return "sums over all ranks";
    case Phase::folder:
      return "the test of the folder";
  }
  return "";
}

double Deadlines::of(Phase phase) const {
  switch (phase) {
    case Phase::start:
      return init_s;
    case Phase::checkpoint:
    case Phase::finish:
      return checkpoint_s;
    case Phase::validation:
      return validation_s;
    case Phase::gone:
      return 0.0;
    case Phase::facts:
    case Phase::links:
    case Phase::reduction:
    case Phase::folder:
      return check_s;
    default:
      return step_s;
  }
}

const char* Deadlines::key_of(Phase phase) const {
  switch (phase) {
    case Phase::start:
      return init_key;
    case Phase::checkpoint:
    case Phase::finish:
      return "fault.checkpoint_timeout_s";
    case Phase::validation:
      return "fault.validation_timeout_s";
    case Phase::facts:
    case Phase::links:
    case Phase::reduction:
    case Phase::folder:
      return "--timeout";
    default:
      return "fault.step_timeout_s";
  }
}

std::optional<Verdict> find_late(std::span<const RankState> ranks, const Deadlines& deadlines, double grace_s) {
  const auto is_late = [&](const RankState& rank) {
    const double deadline = deadlines.of(rank.phase);
    return deadline > 0.0 && rank.in_phase_s() > deadline + grace_s;
  };
  const auto late = std::ranges::find_if(ranks, is_late);
  if (late == ranks.end()) return std::nullopt;
  const auto more_suspect = [](const RankState& a, const RankState& b) {
    const bool a_gone = a.phase == Phase::gone;
    if (a_gone != (b.phase == Phase::gone)) return !a_gone;
    const bool a_silent = a.silent_s > kSilence;
    if (a_silent != (b.silent_s > kSilence)) return a_silent;
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    if (a.waiting != b.waiting) return b.waiting;
    return a.in_phase_s() > b.in_phase_s();
  };
  const auto suspect = std::ranges::min_element(ranks, more_suspect);
  return Verdict{static_cast<std::size_t>(suspect - ranks.begin()), late->phase};
}

std::string describe(const RankState& late, Phase missed, const Deadlines& deadlines) {
  std::string text = fmt::format("is late: {:.0f} s in {}", late.in_phase_s(), name_of(late.phase));
  if (late.phase > Phase::start && late.phase < Phase::gone) text += fmt::format(" at step {}", late.step);
  if (late.silent_s > kSilence) text += fmt::format(", silent for {:.0f} s", late.silent_s);
  return text + fmt::format("; {} = {:g}", deadlines.key_of(missed), deadlines.of(missed));
}

}  // namespace ddpm::comm
