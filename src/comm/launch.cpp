#include "comm/launch.h"

#include <array>
#include <cmath>
#include <csignal>
#include <fstream>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/parent_launcher.h"
#include "base/parse_number.h"
#include "comm/mpi_library.h"

namespace ddpm::comm {
namespace {

/// What ranks are told by those that start them.
struct Told {
  std::optional<Launcher> launcher;  // none: several launchers tell their ranks so
  const char* sign;                  // a variable that its ranks have; null: `rank` or `size`
  const char* rank;
  const char* size;  // null: ranks are not told how many they are
};

// The one that is nearest to the rank first: the tasks of srun may be an mpirun's daemons, and the processes of an
// mpirun inherit what these were told.
constexpr std::array kTold = {
    Told{Launcher::mpirun, nullptr, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    Told{Launcher::mpiexec, "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE"},  // Hydra, of MPICH and Intel MPI
    Told{Launcher::flux, nullptr, "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    Told{std::nullopt, nullptr, "PMIX_RANK", nullptr},
    Told{std::nullopt, nullptr, "PMI_RANK", "PMI_SIZE"},
    // Slurm's batch shells have a SLURM_PROCID, too, but what they start bare is in no step.
    Told{Launcher::srun, "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    Told{Launcher::mpiexec, nullptr, "PALS_RANKID", nullptr},
};

bool is_set(const Environment& environment, const char* variable) {
  return variable != nullptr && environment(variable).has_value();
}

bool is_told(const Told& told, const Environment& environment) {
  if (told.sign != nullptr) return is_set(environment, told.sign);
  return is_set(environment, told.rank) || is_set(environment, told.size);
}

std::optional<int> number_in(const Environment& environment, const char* variable) {
  return base::parse_number<int>(environment(variable).value_or(""));
}

/// How many ranks there are, by a variable.
struct Promise {
  const char* variable;
  int value;
  bool at_least;
  int ranks;
};

/// The ranks that the launcher which is nearest to this process promised.
std::optional<Promise> promise_of_launcher(const Environment& environment) {
  for (const Told& told : kTold) {
    if (told.size == nullptr || !is_told(told, environment)) continue;
    if (const auto size = number_in(environment, told.size)) return Promise{told.size, *size, false, *size};
  }
  return std::nullopt;
}

/// What follows from other variables of a launcher that tells no number of ranks, such as HPE's PALS. Of several the
/// one that says most.
std::optional<Promise> least_promise(const Environment& environment) {
  std::optional<Promise> most;
  const auto take = [&](const char* variable, int more) {
    const auto value = number_in(environment, variable);
    if (value && (!most || *value + more > most->ranks)) most = Promise{variable, *value, true, *value + more};
  };
  for (const Told& told : kTold) {
    if (is_told(told, environment)) take(told.rank, 1);
  }
  take("PALS_LOCAL_SIZE", 0);
  return most;
}

void expect_kept(const std::optional<Promise>& promise, int world_size) {
  if (!promise || promise->ranks <= world_size) return;
  throw base::CommunicationError("{}={} promised {}{} ranks, but MPI found a world of {}; {}", promise->variable,
                                 promise->value, promise->at_least ? "at least " : "", promise->ranks, world_size,
                                 launch_advice());
}

/// Lines of PBS's list of places for ranks.
int pbs_places(const Environment& environment) {
  std::ifstream file(environment("PBS_NODEFILE").value_or(""));
  int places = 0;
  for (std::string line; std::getline(file, line);) places += line.empty() ? 0 : 1;
  return places;
}

/// A batch job's script has forgotten the launcher.
void expect_no_bare_start(const Environment& environment) {
  const auto expect_one = [](int places, const char* job, const char* counted, const char* on_purpose) {
    if (places <= 1) return;
    throw base::CommunicationError(
        "the {} job has {} {}, but the program was started bare as one rank; {} (one rank is had by {})", job, places,
        counted, launch_advice(), on_purpose);
  };
  expect_one(number_in(environment, "SLURM_NTASKS").value_or(1), "Slurm", "tasks (SLURM_NTASKS)", "srun --ntasks=1");
  if (launched_rank(environment)) return;
  expect_one(pbs_places(environment), "PBS", "places for ranks (lines of PBS_NODEFILE)", "mpiexec -n 1");
}

}  // namespace

std::optional<std::string> launched_rank(const Environment& environment) {
  for (const Told& told : kTold) {
    if (is_told(told, environment) && is_set(environment, told.rank)) return environment(told.rank);
  }
  return std::nullopt;
}

Launcher launched_by(const Environment& environment) {
  Launcher launcher = Launcher::none;
  for (const Told& told : kTold) {
    if (!is_told(told, environment)) continue;
    if (told.launcher) return *told.launcher;
    launcher = Launcher::mpiexec;
  }
  return launcher;
}

std::string launcher_name(const Environment& environment) {
  const Launcher launcher = launched_by(environment);
  std::string name(base::name_of(launcher));
  if (launcher != Launcher::srun && launcher != Launcher::flux) return name;
  const std::string job = job_number(environment);
  return fmt::format("{} (job {})", name, job.empty() ? "?" : job);
}

double seconds_of(const Environment& environment, const std::string& variable, double otherwise) {
  const std::string text = environment(variable).value_or("");
  if (text.empty()) return otherwise;
  const auto seconds = base::parse_number<double>(text);
  if (seconds && *seconds >= 0.0 && std::isfinite(*seconds)) return *seconds;
  throw base::ConfigError("{} = {}: seconds are wanted, 0 for no limit", variable, text);
}

bool launched_as_first(const Environment& environment) { return launched_rank(environment).value_or("0") == "0"; }

void check_launch(int world_size, const Environment& environment) {
  if (const auto promise = promise_of_launcher(environment)) return expect_kept(promise, world_size);
  expect_kept(least_promise(environment), world_size);
  if (world_size == 1) expect_no_bare_start(environment);
}

bool launched_by_srun(const Environment& environment) {
  return launched_by(environment) == Launcher::srun && environment("SLURM_PROCID");
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
