#include "train/step_rules.h"

namespace ddpm::train {

StepRules rules_of(const CommonConfig& config, const Placement& place, int64_t total_steps) {
  return {.layout = place.layout,
          .sizes = place.sizes,
          .total_steps = total_steps,
          .reproducible = config.run.reproducible,
          .parallel = config.parallel,
          .optimizer = config.optimizer,
          .lr_schedule = config.lr_schedule,
          .ema = config.ema,
          .precision = config.precision,
          .skip_nonfinite = config.fault.skip_nonfinite,
          .compare_replicas_every = config.fault.compare_replicas_every};
}

double learning_rate_of(const StepRules& rules, int64_t applied) {
  return optim::learning_rate(rules.lr_schedule, rules.optimizer.learning_rate, applied, rules.total_steps);
}

}  // namespace ddpm::train
