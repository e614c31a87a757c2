#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace ddpm::optim {
namespace {

using std::numbers::pi;

/// An update's place in the run, in float64 as the formulas want it.
struct Progress {
  double update;  ///< applied updates before this one
  double total;
  double warmup;
  [[nodiscard]] double after_warmup() const { return (update - warmup) / std::max(1.0, total - warmup); }
};

double linear(const Progress& p) { return std::max(0.0, (p.total - p.update) / std::max(1.0, p.total - p.warmup)); }

double cosine(const Progress& p, double num_cycles) {
  return std::max(0.0, 0.5 * (1.0 + std::cos(pi * num_cycles * 2.0 * p.after_warmup())));
}

double cosine_with_restarts(const Progress& p, double num_cycles) {
  const double progress = p.after_warmup();
  if (progress >= 1.0) return 0.0;
  return std::max(0.0, 0.5 * (1.0 + std::cos(pi * std::fmod(num_cycles * progress, 1.0))));
}

double polynomial(const LrScheduleConfig& c, const Progress& p, double base_lr) {
  if (p.update >= p.total) return c.lr_end / base_lr;
  const double remaining = 1.0 - (p.update - p.warmup) / (p.total - p.warmup);
  return ((base_lr - c.lr_end) * std::pow(remaining, c.power) + c.lr_end) / base_lr;
}

double anneal(const LrScheduleConfig& c, double from, double to, double fraction) {
  if (c.anneal_strategy == AnnealStrategy::linear) return from + (to - from) * fraction;
  return to + (from - to) / 2.0 * (1.0 + std::cos(pi * fraction));
}

/// Rises from peak / div_factor to the peak and falls to the least rate, by way of the first one with three phases.
double one_cycle(const LrScheduleConfig& c, double update, double total, double peak) {
  const double initial = peak / c.div_factor;
  const double least = initial / c.final_div_factor;
  const double rise_end = c.pct_start * total - 1.0;
  // A phase that ends where it begins, or before the first update, is over at once.
  const auto phase = [&](double begin, double end, double from, double to) {
    return end > begin ? anneal(c, from, to, std::min(1.0, (update - begin) / (end - begin))) : to;
  };
  if (update <= rise_end) return phase(0.0, rise_end, initial, peak);
  if (!c.three_phase) return phase(rise_end, total - 1.0, peak, least);
  const double fall_end = 2.0 * c.pct_start * total - 2.0;
  if (update <= fall_end) return phase(rise_end, fall_end, peak, initial);
  return phase(fall_end, total - 1.0, initial, least);
}

}  // namespace

void describe(config::Section& section, LrScheduleConfig& c) {
  section.key("name", c.name, "Shape of the learning rate over optimizer updates.")
      .key("warmup_steps", c.warmup_steps,
           "Updates over which the rate rises from 0; not read by constant and one_cycle.",
           {.min = 0, .instead_of = "warmup_fraction"})
      .key("warmup_fraction", c.warmup_fraction,
           "Instead of warmup_steps: the share of the run's updates over which the rate rises.",
           {.min = 0.0, .max = 1.0, .instead_of = "warmup_steps"})
      .key("num_cycles", c.num_cycles, "Waves of cosine (0.5 falls once to 0), or falls of cosine_with_restarts.",
           {.min = 0.0, .above_min = true, .default_text = "0.5 for cosine, 1 for cosine_with_restarts"})
      .key("power", c.power, "Exponent of polynomial.", {.min = 0.0})
      .key("lr_end", c.lr_end, "The rate that polynomial ends at.", {.min = 0.0})
      .key("pct_start", c.pct_start, "Part of the run in which one_cycle's rate rises.", {.min = 0.0, .max = 1.0})
      .key("anneal_strategy", c.anneal_strategy, "Curve of one_cycle.")
      .key("div_factor", c.div_factor, "one_cycle starts at the peak rate over this.", {.min = 0.0, .above_min = true})
      .key("final_div_factor", c.final_div_factor, "one_cycle ends at its first rate over this.",
           {.min = 0.0, .above_min = true})
      .key("three_phase", c.three_phase,
           "one_cycle falls back to its first rate as fast as it rose, and only then to its least one.");
}

void validate(const LrScheduleConfig& c, double base_lr) {
  if (c.warmup_steps.has_value() == c.warmup_fraction.has_value()) {
    throw base::ConfigError("set exactly one of lr_schedule.warmup_steps and lr_schedule.warmup_fraction; {} set",
                            c.warmup_steps ? "both are" : "neither is");
  }
  if (c.name == LrShape::polynomial && !(c.lr_end < base_lr)) {
    throw base::ConfigError("lr_schedule.lr_end = {} must be below optimizer.learning_rate = {}", c.lr_end, base_lr);
  }
}

int64_t warmup_updates(const LrScheduleConfig& config, int64_t total_updates) {
  if (!config.warmup_fraction) return config.warmup_steps.value_or(0);
  return static_cast<int64_t>(std::floor(*config.warmup_fraction * static_cast<double>(total_updates) + 0.5));
}

double learning_rate(const LrScheduleConfig& config, double base_lr, int64_t update_index, int64_t total_updates) {
  const int64_t warmup = warmup_updates(config, total_updates);
  const Progress p{static_cast<double>(update_index), static_cast<double>(total_updates), static_cast<double>(warmup)};
  const bool warms_up = config.name != LrShape::constant && config.name != LrShape::one_cycle;
  if (warms_up && update_index < warmup) return base_lr * (p.update / p.warmup);
  switch (config.name) {
    case LrShape::constant:
    case LrShape::constant_with_warmup:
      return base_lr;
    case LrShape::linear:
      return base_lr * linear(p);
    case LrShape::cosine:
      return base_lr * cosine(p, config.num_cycles.value_or(0.5));
    case LrShape::cosine_with_restarts:
      return base_lr * cosine_with_restarts(p, config.num_cycles.value_or(1.0));
    case LrShape::polynomial:
      return base_lr * polynomial(config, p, base_lr);
    case LrShape::one_cycle:
      return one_cycle(config, p.update, p.total, base_lr);
  }
  throw base::InternalError("learning rate of shape {}", static_cast<int>(config.name));
}

}  // namespace ddpm::optim
