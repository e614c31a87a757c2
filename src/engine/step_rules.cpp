#include "engine/step_rules.h"

namespace ddpm::engine {

int64_t images_per_update(const StepRules& rules) {
  return rules.layout.global_size / rules.mesh.degree(layout::Axis::island);
}

double learning_rate_of(const StepRules& rules, int64_t applied) {
  return optim::learning_rate(rules.lr_schedule, rules.optimizer.learning_rate, applied, rules.total_steps);
}

}  // namespace ddpm::engine
