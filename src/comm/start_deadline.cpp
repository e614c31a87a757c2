#include "comm/start_deadline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/host_name.h"
#include "comm/launch.h"

namespace ddpm::comm {
namespace {

/// Ranks that say nothing leave so much later than their own deadline, and no more than as long again: those that speak
/// may have started after them, and launchers end all where one leaves.
constexpr double kSilentSeconds = 30.0;

/// What ends the process of a rank that has waited for `seconds`.
void give_up(double seconds, const std::string& rank, bool speaks) {
  if (speaks) {
    std::fprintf(stderr,
                 "ddpm: error: rank %s on %s: the ranks have not met within %g s (%s): some have not come, or "
                 "cannot be reached from others\n",
                 rank.c_str(), base::host_name().c_str(), seconds, StartDeadline::kVariable);
  }
  std::_Exit(static_cast<int>(base::ExitCode::communication));
}

/// The limit that holds until the ranks have met.
double limit_of(double otherwise) {
  try {
    return StartDeadline::seconds(otherwise);
  } catch (const base::ConfigError&) {
    return otherwise;
  }
}

}  // namespace

double StartDeadline::seconds(double otherwise) { return seconds_of(process_environment(), kVariable, otherwise); }

StartDeadline::StartDeadline(double otherwise) {
  const double limit = limit_of(otherwise);
  if (!(limit > 0.0)) return;
  // Asked here: MPI_Init may change the environment while the thread waits.
  const std::string rank = launched_rank(process_environment()).value_or("0");
  // The missing one may be rank 0: two lines are better than none, and than a thousand.
  const bool speaks = rank == "0" || rank == "1";
  deadline_.emplace(limit + (speaks ? 0.0 : std::min(limit, kSilentSeconds)),
                    [limit, rank, speaks] { give_up(limit, rank, speaks); });
}

}  // namespace ddpm::comm
