#include "report/measures.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"

namespace ddpm::report {
namespace {

using observe::StepMetrics;

/// A lock is renewed every 30 s; one that was not for so long is that of a killed run.
constexpr double kLivingLock = 300.0;

std::span<const StepMetrics> recent_of(const RunRecord& run) {
  const auto count = static_cast<std::size_t>(std::ceil(kRecentShare * static_cast<double>(run.metrics.size())));
  return std::span(run.metrics).last(count);
}

std::vector<double> values_of(std::span<const StepMetrics> metrics, double StepMetrics::*member) {
  std::vector<double> values;
  for (const StepMetrics& one : metrics) {
    if (std::isfinite(one.*member)) values.push_back(one.*member);
  }
  return values;
}

std::optional<double> optional_median(std::span<const StepMetrics> metrics, double StepMetrics::*member) {
  const double median = median_of(values_of(metrics, member));
  return std::isfinite(median) ? std::optional(median) : std::nullopt;
}

std::optional<double> optional_mean(std::span<const StepMetrics> metrics, double StepMetrics::*member) {
  const auto mean = mean_of(values_of(metrics, member));
  return mean ? std::optional(mean->value) : std::nullopt;
}

/// Whether the last start has ended as it should, after all steps. A program with a model of its own leaves no
/// RUN/model.
bool is_complete(const RunRecord& run) {
  if (run.usage.empty()) return false;
  const observe::UsageLine& last = run.usage.back();
  return last.event == observe::UsageEvent::end && last.error.empty() && last.total > 0 && last.to >= last.total;
}

/// How far the loss of a validation lies above the training loss of the logged steps around it: up to 64 of them.
std::optional<Interval> gap_at(const RunRecord& run, std::size_t at) {
  constexpr std::size_t kAround = 32;
  const std::size_t begin = at - std::min(at, kAround);
  const std::size_t end = std::min(run.metrics.size(), at + kAround);
  const auto training = mean_of(values_of(std::span(run.metrics).subspan(begin, end - begin), &StepMetrics::loss));
  const double loss = *run.metrics[at].validation_loss;
  if (!training || !std::isfinite(loss)) return std::nullopt;
  return Interval{loss - training->value, loss - training->high, loss - training->low};
}

/// The step that the run has reached: the last one that was logged, or a later one that its last start tells of.
int64_t step_of(const RunRecord& run) {
  return std::max(run.last_step(), run.usage.empty() ? int64_t{0} : run.usage.back().to);
}

std::optional<Validations> validations_of(const RunRecord& run) {
  constexpr std::size_t kRecent = 8;
  std::vector<int64_t> steps;
  std::vector<double> losses;
  std::size_t best = 0;
  std::size_t last = 0;
  Validations result;
  for (std::size_t i = 0; i < run.metrics.size(); ++i) {
    const auto& loss = run.metrics[i].validation_loss;
    if (!loss || !std::isfinite(*loss)) continue;
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
  result.count = std::ssize(losses);
  result.last = losses.back();
  result.best_step = run.metrics[best].step;
  result.trend = trend_of(std::span(steps).subspan(left), std::span(losses).subspan(left), 1.0);
  result.gap = gap_at(run, last);
  result.gap_at_best = gap_at(run, best);
  return result;
}

bool on_like_hardware(const observe::UsageLine& a, const observe::UsageLine& b) {
  return a.ranks == b.ranks && a.devices == b.devices && a.cpus == b.cpus && a.device_name == b.device_name;
}

/// The logged steps since the run has had the ranks, GPUs and threads of its last start.
std::span<const StepMetrics> on_last_hardware(const RunRecord& run) {
  int64_t from = 0;
  for (std::size_t i = 1; i < run.usage.size(); ++i) {
    if (!on_like_hardware(run.usage[i - 1], run.usage[i])) from = run.usage[i].from;
  }
  const auto first = std::ranges::find_if(run.metrics, [&](const StepMetrics& one) { return one.step > from; });
  return first == run.metrics.end() ? std::span(run.metrics) : std::span(first, run.metrics.end());
}

void measure_speed(const RunRecord& run, Measures& measures) {
  constexpr std::size_t kFewest = 3;
  const auto alike = on_last_hardware(run);
  const auto recent = alike.last(std::min(alike.size(), recent_of(run).size()));
  measures.images_per_second = optional_median(recent, &StepMetrics::images_per_second);
  measures.data_wait = optional_mean(recent, &StepMetrics::data_wait_fraction);
  measures.comm_wait = optional_mean(recent, &StepMetrics::comm_wait_fraction);
  const std::size_t first = std::max(kFewest, alike.size() / 10);
  if (alike.size() > 2 * first + 1) {
    measures.first_images_per_second = optional_median(alike.subspan(1, first), &StepMetrics::images_per_second);
  }
  const auto seconds = optional_median(recent, &StepMetrics::seconds_per_step);
  if (seconds && measures.total && *measures.total > measures.step) {
    measures.seconds_left = *seconds * static_cast<double>(*measures.total - measures.step);
  }
}

void measure_steps(const RunRecord& run, Measures& measures) {
  const auto recent = recent_of(run);
  measures.recent = std::ssize(recent);
  measures.skipped =
      std::ranges::count_if(recent, [](const StepMetrics& one) { return !std::isfinite(one.grad_norm); });
  if (run.metrics.empty()) return;
  measures.loss_scale = run.metrics.back().loss_scale;
  const std::vector<double> rates = values_of(run.metrics, &StepMetrics::learning_rate);
  const double peak = rates.empty() ? 0.0 : *std::ranges::max_element(rates);
  if (peak > 0.0) measures.learning_rate_share = rates.back() / peak;
}

/// Why checkpoint::CheckpointStore::find() would refuse what `run` holds; "": it would not.
std::string refusal_of(const RunRecord& run) {
  for (const CheckpointFacts& one : run.checkpoints) {  // the newest first
    if (one.problem.empty()) return "";
    if (one.newer) return fmt::format("a later version wrote its checkpoint of step {}", base::grouped(one.step));
  }
  if (!run.checkpoints.empty()) {
    return fmt::format("of its {} none is whole", base::counted(std::ssize(run.checkpoints), "checkpoint"));
  }
  return run.saved_before ? "its LATEST says that there was a checkpoint, and there is none" : "";
}

void measure_folder(const RunRecord& run, double now, Measures& measures) {
  measures.learning_rate_falls = !run.setting("lr_schedule.name").value_or("").starts_with("\"constant");
  if (run.lock) measures.lock_age = std::max(0.0, now - run.lock->renewed);
  const bool lives = measures.lock_age && *measures.lock_age < kLivingLock;
  measures.has_model = run.has_model;
  const bool done = run.has_model || is_complete(run);
  measures.phase = lives ? Phase::training : done ? Phase::finished : Phase::interrupted;
  if (!lives && !run.usage.empty()) measures.failure = run.usage.back().error;
  measures.refusal = refusal_of(run);
  const auto whole = std::ranges::find_if(run.checkpoints, [](const auto& one) { return one.problem.empty(); });
  if (whole == run.checkpoints.end()) return;
  measures.checkpoint_step = whole->step;
  measures.checkpoint_age = std::max(0.0, now - whole->written);
}

}  // namespace

std::vector<double> column(const RunRecord& run, double StepMetrics::*member) {
  std::vector<double> values;
  values.reserve(run.metrics.size());
  for (const StepMetrics& one : run.metrics) values.push_back(one.*member);
  return values;
}

std::vector<int64_t> steps_of(const RunRecord& run) {
  std::vector<int64_t> steps;
  steps.reserve(run.metrics.size());
  for (const StepMetrics& one : run.metrics) steps.push_back(one.step);
  return steps;
}

Measures measures_of(const RunRecord& run, double now) {
  Measures measures{.step = step_of(run), .total = run.total_steps()};
  measure_folder(run, now, measures);
  measure_steps(run, measures);
  measure_speed(run, measures);
  measures.loss = trend_of(steps_of(run), column(run, &StepMetrics::loss), kRecentShare);
  measures.validation = validations_of(run);
  return measures;
}

}  // namespace ddpm::report
