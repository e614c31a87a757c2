#include "comm/lateness.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ddpm::comm {
namespace {

// Each stands for more than kLongestLook: together they reach farther back than half an hour.
constexpr std::size_t kMostPauses = 1024;

constexpr double kOftenest = 0.05;
constexpr double kLeastOften = 1.0;

}  // namespace

double seconds_until_next_word(double deadline_s) {
  return deadline_s > 0.0 ? std::clamp(deadline_s / 4.0, kOftenest, kLeastOften) : kLeastOften;
}

bool RankState::only_waits() const { return waiting && silent_s <= kSilence; }

double RankState::surely_in_phase_s() const {
  return age_s + std::max(0.0, silent_s - seconds_until_next_word(phase.deadline_s));
}

double RankState::progress_age_s() const {
  if (!phase.by_progress) return std::numeric_limits<double>::infinity();
  return std::min(age_s, job_age_s) + silent_s;
}

void SeenTime::look(Clock::time_point now) {
  const Clock::duration between = now - std::exchange(last_look_, now);
  const auto longest = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kLongestLook));
  if (between <= longest) return;
  pauses_.push_back({.end = now, .unseen = between - longest});
  if (pauses_.size() > kMostPauses) pauses_.pop_front();
}

double SeenTime::seconds(Clock::time_point then) const {
  Clock::duration seen = last_look_ - std::min(then, last_look_);
  for (auto pause = pauses_.rbegin(); pause != pauses_.rend() && pause->end > then; ++pause) {
    seen -= std::min(pause->unseen, pause->end - then);
  }
  return std::chrono::duration<double>(seen).count();
}

std::optional<Verdict> find_late(std::span<const RankState> ranks, int turn) {
  const auto moves_on = [](const RankState& rank) { return rank.progress_age_s() <= rank.phase.deadline_s; };
  const bool moves = std::ranges::any_of(ranks, moves_on);
  const auto is_late = [&](const RankState& rank) {
    if (rank.phase.gone || rank.phase.deadline_s <= 0.0) return false;
    if (rank.phase.by_progress && rank.only_waits() && moves) return false;
    return rank.surely_in_phase_s() > rank.phase.deadline_s + turn * std::min(kBetweenTurns, rank.phase.deadline_s);
  };
  const auto late = std::ranges::find_if(ranks, is_late);
  if (late == ranks.end()) return std::nullopt;
  const auto more_suspect = [](const RankState& a, const RankState& b) {
    if (a.phase.gone != b.phase.gone) return !a.phase.gone;
    const bool a_silent = a.silent_s > kSilence;
    if (a_silent != (b.silent_s > kSilence)) return a_silent;
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    if (a.waiting != b.waiting) return b.waiting;
    return a.in_phase_s() > b.in_phase_s();
  };
  const auto suspect = std::ranges::min_element(ranks, more_suspect);
  return Verdict{static_cast<std::size_t>(suspect - ranks.begin()), late->phase};
}

std::string describe(const RankState& late, const Phase& missed) {
  std::string text = fmt::format("is late: {:.0f} s {}in {}", late.in_phase_s(),
                                 late.phase.by_progress ? "without progress " : "", late.phase.name);
  if (late.step >= 0) text += fmt::format(" at step {}", late.step);
  if (late.silent_s > kSilence) text += fmt::format(", silent for {:.0f} s", late.silent_s);
  return text + fmt::format("; {} = {:g}", missed.key, missed.deadline_s);
}

}  // namespace ddpm::comm
