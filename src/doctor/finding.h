// What `ddpm doctor` concludes about one thing that it examined.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddpm::doctor {

enum class Severity : uint8_t {
  ok,
  note,     ///< worth knowing; nothing to do if it is meant to be so
  warning,  ///< a run will be slower than it could be, or may fail later
  problem   ///< a run will fail, or its results cannot be trusted
};
constexpr auto names_of(Severity /*type*/) {
  return std::to_array<std::string_view>({"ok", "note", "warning", "problem"});
}

enum class Area : uint8_t {
  ranks,
  versions,
  environment,
  binding,
  memory,
  limits,
  devices,
  links,
  slingshot,
  clocks,
  folder
};
constexpr auto names_of(Area /*type*/) {
  return std::to_array<std::string_view>({"ranks", "versions", "environment", "binding", "memory", "limits", "GPUs",
                                          "links", "Slingshot", "clocks", "run folder"});
}

struct Finding {
  Severity severity = Severity::ok;
  Area area = Area::ranks;
  std::string seen;    ///< what was found, with hosts, ranks and values
  std::string advice;  ///< what to do, one line; empty for `ok`
};

/// Returns 0 without a problem, 4 when all problems concern the run folder, and 5 otherwise.
base::ExitCode exit_code_of(const std::vector<Finding>& findings);

}  // namespace ddpm::doctor
