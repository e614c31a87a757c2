// `ddpm doctor`: looks at the allocated hosts before a job that matters.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/file_system.h"
#include "doctor/finding.h"
#include "doctor/survey.h"
#include "run/runtime.h"

namespace ddpm::doctor {

struct DoctorOptions {
  base::Path folder = ".";                      ///< the run folder; need not exist
  double timeout_s = 60.0;                      ///< how long each part of the examination may take
  int64_t reduction_bytes = int64_t{64} << 20;  ///< the largest all-reduce
  int64_t file_bytes = int64_t{16} << 20;       ///< what one rank of each host writes
};

struct Diagnosis {
  Survey survey;  ///< without the ranks' facts when the ranks cannot continue (see below)
  std::vector<Finding> findings;
  base::ExitCode code = base::ExitCode::done;  ///< exit_code_of(findings), on every rank
};

/// Gathers facts, measures links, clocks, sums and the folder, and judges; the answer is complete on rank 0. It first
/// finds ranks of different programs or options, before any message whose size they could disagree on; if there are
/// any, it examines nothing else. Whatever hangs ends the job with exit code 5 after the timeout, and a line that names
/// the host (the watchdog of `runtime`, which it needs). `done` is called after each of kParts parts. Collective.
Diagnosis examine(const run::Runtime& runtime, const DoctorOptions& options,
                  const std::function<void(int64_t done)>& done);
inline constexpr int64_t kParts = 5;

}  // namespace ddpm::doctor
