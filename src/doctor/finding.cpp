#include "doctor/finding.h"

namespace ddpm::doctor {

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
