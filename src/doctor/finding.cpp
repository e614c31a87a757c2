#include "doctor/finding.h"

namespace ddpm::doctor {

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::problem:
      return "problem";
  }
  return "";
}

const char* name_of(Area area) {
  switch (area) {
    case Area::ranks:
      return "ranks";
    case Area::versions:
      return "versions";
    case Area::environment:
      return "environment";
    case Area::binding:
      return "binding";
    case Area::memory:
      return "memory";
    case Area::limits:
      return "limits";
    case Area::devices:
      return "GPUs";
    case Area::links:
      return "links";
    case Area::clocks:
      return "clocks";
    case Area::folder:
      return "run folder";
  }
  return "";
}

base::ExitCode exit_code_of(const std::vector<Finding>& findings) {
  auto code = base::ExitCode::done;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::problem) continue;
    if (finding.area != Area::folder) return base::ExitCode::communication;
    code = base::ExitCode::output;
  }
  return code;
}

}  // namespace ddpm::doctor
