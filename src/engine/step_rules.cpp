#include "engine/step_rules.h"

namespace ddpm::engine {

double learning_rate_of(const StepRules& rules, int64_t applied) {
  return optim::learning_rate(rules.lr_schedule, rules.optimizer.learning_rate, applied, rules.total_steps);
}

}  // namespace ddpm::engine
