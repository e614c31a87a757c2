// The [logging] section.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema.h"

namespace ddpm::observe {

struct LoggingConfig {
  int64_t every_steps = 10;
  bool tensorboard = true;
  std::string progress = "auto";
};

/// Declares the keys of [logging] with their defaults, ranges and documentation.
void describe(config::Section& section, LoggingConfig& c);

}  // namespace ddpm::observe
