#include "train/step_rules.h"

namespace ddpm::train {

double learning_rate_of(const StepRules& rules, int64_t applied) {
  return optim::learning_rate(rules.lr_schedule, rules.optimizer.learning_rate, applied, rules.total_steps);
}

}  // namespace ddpm::train
