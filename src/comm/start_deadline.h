// A rank that never calls MPI_Init keeps the others waiting in theirs, where no configuration is known yet.
#pragma once

#include <optional>

#include "comm/deadline.h"

namespace ddpm::comm {

/// From its making to its end the ranks have to meet: `otherwise`, or DDPM_START_TIMEOUT_S of the environment (0: no
/// limit). Else the first two ranks say so, and the process ends with exit code 5; the others do so some seconds later,
/// lest their end take the line along. Makes no MPI call. A wrong value, which one node alone may have, stands for
/// `otherwise`: seconds() refuses it, when the ranks have met and can agree on that.
class StartDeadline {
 public:
  /// The environment's name for the limit.
  static constexpr const char* kVariable = "DDPM_START_TIMEOUT_S";
  static constexpr double kUsual = 900.0;
  /// The limit; 0: none. `otherwise` where the environment has none. Throws ConfigError for what is not a number.
  static double seconds(double otherwise);

  explicit StartDeadline(double otherwise);

 private:
  std::optional<Deadline> deadline_;
};

}  // namespace ddpm::comm
