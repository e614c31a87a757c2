// What runs have used of the machine, over all their starts: their own lines, and Slurm's account of their jobs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/run_record.h"

namespace ddpm::report {

/// One job as Slurm's accounting has it: of everything in the job, which may be more than the run.
struct SlurmJob {
  std::string job = {};
  double seconds = 0.0;       ///< how long it ran, over all its starts
  double core_seconds = 0.0;  ///< allocated CPUs × seconds
  std::optional<double> joules = {};
};

struct Account {
  int64_t starts = 0;
  int64_t unfinished = 0;  ///< starts without a last line: killed, or still running
  int64_t repeated = 0;    ///< steps that a later start computed once more
  double seconds = 0.0;
  double core_seconds = 0.0;
  double device_seconds = 0.0;
  double joules = 0.0;             ///< energy of the starts that measured it
  double measured_seconds = 0.0;   ///< how long those starts had run when they measured it last
  std::string energy_source = {};  ///< "RAPL"; "" where nothing was measured
  bool lacks_gpus = false;         ///< starts on GPUs are among these whose counters are of the hosts alone
  int64_t images = 0;           ///< images that were computed, repeated ones among them; 0 where the batch is not known
  int64_t measured_images = 0;  ///< images that the starts that measured energy computed
};

/// The last line of a start of `run`. Of the last start, which trains at the time `now` if there is one, the line
/// counts up to then, and to the last logged step: the file has a line at each checkpoint only. The energy is still
/// that of the line.
observe::UsageLine counted_line(const RunRecord& run, std::size_t start, std::optional<double> now);

/// `now`: seconds since 1970 where the run trains at the time; none: it does not.
Account account_of(const RunRecord& run, std::optional<double> now = {});

/// The jobs that the starts of `run` belonged to, each once.
std::vector<std::string> jobs_of(const RunRecord& run);

/// Asks `sacct`; nothing where it is not there, has no answer, or `jobs` is empty.
std::vector<SlurmJob> ask_slurm(const std::vector<std::string>& jobs);
/// Reads what sacct writes: JobID|ElapsedRaw|CPUTimeRAW|ConsumedEnergyRaw, a line for each job and each of its steps,
/// and again for each start of a job that was requeued. Energy is that of the job's own line, or where that has none
/// the highest of its steps.
std::vector<SlurmJob> parse_sacct(std::string_view text);

}  // namespace ddpm::report
