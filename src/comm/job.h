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

/// The number by which users find this job in the batch system (Slurm, PBS, Flux); "" outside of one. A job of Flux has
/// a Flux of its own inside, where each `flux run` is a job: it is the number of the job around them.
std::string job_number(const Environment& environment);
/// How often this job has come back under its number: SLURM_RESTART_COUNT, or under PBS what jobs/batch.sh has counted
/// (DDPM_RESTARTS). 0 at its first start.
int64_t job_restarts(const Environment& environment);

}  // namespace ddpm::comm
