// The environment of this process, and what it says of the batch job around it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddpm::comm {

/// The value of an environment variable, if it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// The number that the batch system (Slurm, PBS, Flux) has given to this job; "" outside of one.
std::string job_number(const Environment& environment);
/// How often this job has come back under its number: SLURM_RESTART_COUNT, or under PBS what jobs/batch.sh has counted
/// (DDPM_RESTARTS). 0 at its first start.
int64_t job_restarts(const Environment& environment);

}  // namespace ddpm::comm
