// Metrics of a step as a run could have them.
#pragma once

#include <limits>

#include "observe/metrics.h"

namespace ddpm::observe {

inline StepMetrics metrics_of(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.images_seen = 32 * step;
  m.loss = 0.5;
  m.loss_quartiles = {0.9, std::numeric_limits<double>::quiet_NaN(), 0.2, 0.1};
  return m;
}

}  // namespace ddpm::observe
