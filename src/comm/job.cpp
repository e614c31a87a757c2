#include "comm/job.h"

#include <cstdlib>

namespace ddpm::comm {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nothing here changes it
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::string job_number(const Environment& environment) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "FLUX_ENCLOSING_ID", "FLUX_JOB_ID"}) {
    if (auto number = environment(name)) return *number;
  }
  return "";
}

int64_t job_restarts(const Environment& environment) {
  // Slurm sets no count at the first start, where DDPM_RESTARTS may be that of a job before this one.
  const auto count = environment(environment("SLURM_JOB_ID") ? "SLURM_RESTART_COUNT" : "DDPM_RESTARTS");
  return count ? std::strtoll(count->c_str(), nullptr, 10) : 0;
}

}  // namespace ddpm::comm
