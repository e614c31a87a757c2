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

bool is_whole(const CheckpointFacts& checkpoint) { return checkpoint.problem.empty(); }

/// The step that the run has reached: the last one that was logged, or a later one that its last start or a checkpoint
/// tells of, since logs may be damaged or of a later version.
int64_t step_of(const RunRecord& run) {
  int64_t step = std::max(run.last_step(), run.usage.empty() ? int64_t{0} : run.usage.back().to);
  for (const CheckpointFacts& one : run.checkpoints) {
    if (is_whole(one) || one.newer) step = std::max(step, one.step);
  }
  return step;
}

bool on_like_hardware(const observe::UsageLine& a, const observe::UsageLine& b) {
  return a.ranks == b.ranks && a.devices == b.devices && a.cpus == b.cpus && a.device_name == b.device_name;
}

/// The logged steps since the run has had the ranks, GPUs and threads of its last start: none where that has logged
/// nothing yet.
std::span<const StepMetrics> on_last_hardware(const RunRecord& run) {
  int64_t from = 0;
  for (std::size_t i = 1; i < run.usage.size(); ++i) {
    if (!on_like_hardware(run.usage[i - 1], run.usage[i])) from = run.usage[i].from;
  }
  const auto first = std::ranges::find_if(run.metrics, [&](const StepMetrics& one) { return one.step > from; });
  return {first, run.metrics.end()};
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
      std::ranges::count_if(recent, [](const StepMetrics& one) { return !std::isfinite(one.gradient_norm); });
  if (run.metrics.empty()) return;
  measures.loss_scale = run.metrics.back().loss_scale;
  const std::vector<double> rates = values_of(run.metrics, &StepMetrics::learning_rate);
  const double peak = rates.empty() ? 0.0 : *std::ranges::max_element(rates);
  if (peak > 0.0) measures.learning_rate_share = rates.back() / peak;
  measures.learning_rate_rises = rates.size() > 1 && rates.back() > rates[rates.size() - 2];
}

/// The losses since the images that are trained on now: those of others lie elsewhere.
void measure_losses(const RunRecord& run, Measures& measures) {
  measures.other_images = last_step_of_other_images(run);
  const auto other =
      std::ranges::count_if(run.metrics, [&](const StepMetrics& one) { return one.step <= measures.other_images; });
  const std::vector<int64_t> all_steps = steps_of(run);
  const std::vector<double> all_losses = column(run, &StepMetrics::loss);
  const auto steps = std::span(all_steps).subspan(static_cast<std::size_t>(other));
  const auto losses = std::span(all_losses).subspan(static_cast<std::size_t>(other));
  measures.loss = trend_of(steps, losses, kRecentShare);
  measures.unfinite = unfinite_end(steps, losses);
  measures.divergence = divergence_of(steps, losses);
  if (!measures.divergence) return;
  const auto before = std::ranges::find_if(run.checkpoints, [&](const CheckpointFacts& one) {  // the newest first
    return is_whole(one) && one.step < measures.divergence->step;
  });
  if (before != run.checkpoints.end()) measures.before_divergence = before->step;
}

void measure_validations(const RunRecord& run, Measures& measures) {
  measures.other_validation = last_step_of_other_validation(run);
  measures.validation = validations_of(run);
  measures.best_kept = measures.validation && std::ranges::any_of(run.checkpoints, [&](const CheckpointFacts& one) {
                         return is_whole(one) && one.step == measures.validation->best_step;
                       });
}

/// Why checkpoint::CheckpointStore::find() would refuse what `run` holds; "": it would not.
std::string refusal_of(const RunRecord& run) {
  for (const CheckpointFacts& one : run.checkpoints) {  // the newest first
    if (is_whole(one)) return "";
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
  measures.owner_ended = run.lock && run.lock->ended;
  const bool lives = measures.lock_age && *measures.lock_age < kLivingLock && !measures.owner_ended;
  measures.has_model = run.has_model;
  const bool done = run.has_model || is_complete(run);
  measures.phase = lives ? Phase::training : done ? Phase::finished : Phase::interrupted;
  if (!lives && !run.usage.empty()) measures.failure = run.usage.back().error;
  if (run.logged) measures.log_age = std::max(0.0, now - *run.logged);
  measures.patience = run.integer_setting("early_stopping.patience").value_or(0);
  measures.refusal = refusal_of(run);
  const auto whole = std::ranges::find_if(run.checkpoints, is_whole);
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
  measure_losses(run, measures);
  measure_validations(run, measures);
  return measures;
}

}  // namespace ddpm::report
