#include "report/validations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace ddpm::report {
namespace {

/// Up to which step a start with another name than the newest has logged. One that a later start has gone on from no
/// later step than its own first has left nothing in the logs.
int64_t last_step_of_other(const std::vector<observe::UsageLine>& usage, std::string observe::UsageLine::*member) {
  std::string newest;
  int64_t found = 0;
  int64_t least_later = std::numeric_limits<int64_t>::max();
  for (auto start = usage.rbegin(); start != usage.rend(); ++start) {
    const std::string& name = (*start).*member;
    if (newest.empty()) newest = name;
    if (name != newest && !name.empty() && start->from < least_later) found = std::max(found, least_later);
    least_later = std::min(least_later, start->from);
  }
  return found;
}

/// How far the loss of a validation lies above the training loss of the logged steps around it, up to 64 of them, all
/// after the step `after`.
std::optional<Interval> gap_at(const RunRecord& run, std::size_t at, int64_t after) {
  constexpr std::size_t kAround = 32;
  const std::size_t begin = at - std::min(at, kAround);
  const std::size_t end = std::min(run.metrics.size(), at + kAround);
  std::vector<double> losses;
  for (std::size_t i = begin; i < end; ++i) {
    const observe::StepMetrics& one = run.metrics[i];
    if (one.step > after && std::isfinite(one.loss)) losses.push_back(one.loss);
  }
  const auto training = mean_of(losses);
  if (!training || run.metrics[at].step <= after) return std::nullopt;
  const double loss = *run.metrics[at].validation_loss;
  return Interval{loss - training->value, loss - training->high, loss - training->low};
}

}  // namespace

int64_t last_step_of_other_images(const RunRecord& run) {
  return last_step_of_other(run.usage, &observe::UsageLine::images);
}

int64_t last_step_of_other_validation(const RunRecord& run) {
  return last_step_of_other(run.usage, &observe::UsageLine::validation);
}

std::optional<Validations> validations_of(const RunRecord& run) {
  constexpr std::size_t kRecent = 8;
  constexpr std::size_t kLately = 3;
  const int64_t after = last_step_of_other_validation(run);
  std::vector<int64_t> steps;
  std::vector<double> losses;
  std::size_t best = 0;
  std::size_t last = 0;
  Validations result;
  for (std::size_t i = 0; i < run.metrics.size(); ++i) {
    const auto& loss = run.metrics[i].validation_loss;
    if (!loss || !std::isfinite(*loss) || run.metrics[i].step <= after) continue;
    last = i;
    ++result.since_best;
    if (losses.empty() || *loss < result.best) {
      best = i;
      result.best = *loss;
      result.since_best = 0;
    }
    steps.push_back(run.metrics[i].step);
    losses.push_back(*loss);
  }
  if (losses.empty()) return std::nullopt;
  const std::size_t left = losses.size() - std::min(losses.size(), kRecent);
  const int64_t other_images = last_step_of_other_images(run);
  result.count = std::ssize(losses);
  result.last = losses.back();
  result.best_step = run.metrics[best].step;
  result.least_lately = *std::ranges::min_element(std::span(losses).last(std::min(losses.size(), kLately)));
  result.trend = trend_of(std::span(steps).subspan(left), std::span(losses).subspan(left), 1.0);
  result.gap = gap_at(run, last, other_images);
  result.gap_at_best = gap_at(run, best, other_images);
  return result;
}

}  // namespace ddpm::report
