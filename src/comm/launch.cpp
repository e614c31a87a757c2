#include "comm/launch.h"

#include <charconv>
#include <cmath>
#include <csignal>
#include <string_view>

#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/parent_launcher.h"
#include "comm/mpi_library.h"

namespace ddpm::comm {
namespace {

struct Promise {
  std::string variable;
  int ranks;
};

std::optional<Promise> promise_in(const Environment& environment, const std::string& variable) {
  const auto text = environment(variable);
  int ranks = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), ranks).ec != std::errc()) return std::nullopt;
  return Promise{variable, ranks};
}

/// The ranks that the launcher which is nearest to this process promised.
std::optional<Promise> promise_of_launcher(const Environment& environment) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE"}) {
    if (auto promise = promise_in(environment, variable)) return promise;
  }
  if (environment("SLURM_STEP_ID")) return promise_in(environment, "SLURM_STEP_NUM_TASKS");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> launched_rank(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "FLUX_TASK_RANK"}) {
    if (auto rank = environment(name)) return rank;
  }
  // Slurm's batch shells have a SLURM_PROCID, too, but what they start bare is in no step.
  return environment("SLURM_STEP_ID") ? environment("SLURM_PROCID") : std::nullopt;
}

double seconds_of(const Environment& environment, const std::string& variable, double otherwise) {
  const std::string text = environment(variable).value_or("");
  if (text.empty()) return otherwise;
  double seconds = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (whole && seconds >= 0.0 && std::isfinite(seconds)) return seconds;
  throw base::ConfigError("{} = {}: seconds are wanted, 0 for no limit", variable, text);
}

bool launched_as_first(const Environment& environment) { return launched_rank(environment).value_or("0") == "0"; }

void check_launch(int world_size, const Environment& environment) {
  if (const auto promise = promise_of_launcher(environment)) {
    if (promise->ranks <= world_size) return;
    throw base::CommunicationError("{}={} promised {} ranks, but MPI found a world of {}; {}", promise->variable,
                                   promise->ranks, promise->ranks, world_size, launch_advice());
  }
  const auto job = promise_in(environment, "SLURM_NTASKS");
  if (world_size == 1 && job && job->ranks > 1) {
    throw base::CommunicationError(
        "the Slurm job has {} tasks (SLURM_NTASKS), but the program was "
        "started bare as one rank; {} (one rank is had by srun --ntasks=1)",
        job->ranks, launch_advice());
  }
}

bool launched_by_srun(const Environment& environment) {
  return environment("SLURM_STEP_ID") && environment("SLURM_PROCID") && !environment("OMPI_COMM_WORLD_SIZE");
}

bool lacks_pmix(const Environment& environment) { return launched_by_srun(environment) && !environment("PMIX_RANK"); }

void check_pmix(const Environment& environment) {
  if (!lacks_pmix(environment)) return;
  const std::string tasks = environment("SLURM_STEP_NUM_TASKS").value_or("?");
  const bool may_be_shell = tasks == "1";
  throw base::CommunicationError("srun started task {} of {} without a PMIx server (no PMIX_RANK); {}{}",
                                 *environment("SLURM_PROCID"), tasks, launch_advice(),
                                 may_be_shell ? "; in a shell of srun --pty: srun --overlap --mpi=pmix" : "");
}

void die_with_launcher() {
  const auto launcher = base::parent_launcher();
  if (!launcher) return;
  // SIGKILL: without its launcher a rank can neither finish a collective nor be stopped by anyone.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  // The launcher may have died before the call above, which then never fires.
  if (getppid() != launcher->pid) {
    throw base::CommunicationError("{} (process {}) died while this rank started", launcher->name, launcher->pid);
  }
}

}  // namespace ddpm::comm
