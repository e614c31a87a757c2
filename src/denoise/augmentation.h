// What training changes about a batch: pure functions of (seed, step, position in the global batch).
#pragma once

#include <cstdint>

namespace ddpm::denoise {

struct Augmentation {
  uint64_t seed = 0;
  bool horizontal_flip = false;
  bool vertical_flip = false;
  bool quarter_turns = false;
  double condition_dropout = 0.0;  ///< probability that the condition's channels and the parameters are left out

  [[nodiscard]] bool turns() const { return horizontal_flip || vertical_flip || quarter_turns; }
};

}  // namespace ddpm::denoise
