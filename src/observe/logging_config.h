// The [logging] section.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "config/schema.h"

namespace ddpm::observe {

/// How progress is shown on stderr: see observe/progress_bar.h.
enum class ProgressChoice : uint8_t { automatic, bar, lines, off };
constexpr auto names_of(ProgressChoice /*type*/) {
  return std::to_array<std::string_view>({"auto", "bar", "lines", "off"});
}

struct LoggingConfig {
  int64_t every_steps = 10;
  bool tensorboard = true;
  bool csv = false;
  bool norms = false;
  bool rank_files = false;
  ProgressChoice progress = ProgressChoice::automatic;
};

/// Declares [logging] and its keys with their defaults, ranges and documentation.
void declare_logging(config::Schema& schema, LoggingConfig& c);

}  // namespace ddpm::observe
