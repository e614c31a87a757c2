// The paragraph for a proposal for computing time: what was used, how fast it was, what more would take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/account.h"
#include "report/measures.h"
#include "report/run_record.h"

namespace ddpm::report {

/// What the paragraph needs of one run.
struct ProposalRun {
  const RunRecord& record;
  const Measures& measures;
  const Account& account;
};

struct ProposalOptions {
  std::optional<int64_t> images = {};        ///< that the proposed training takes; otherwise those of the largest run
  std::optional<double> grams_per_kwh = {};  ///< CO₂ of the site's electricity
};

/// How well more of a machine is used, for runs that differ in how much they had of it: images per second and core (or
/// GPU, where they compute on such) of the largest, as a share of the smallest's.
struct Efficiency {
  std::string unit = {};  ///< "CPU core" or "GPU"
  int64_t fewest = 0;
  int64_t most = 0;
  double rate_fewest = 0.0;  ///< images per second, of all of them
  double rate_most = 0.0;
  double share = 0.0;
};
/// None unless two of the runs trained the same model on the same data with the same global batch or the same per rank,
/// on different numbers of the same devices.
std::optional<Efficiency> efficiency_of(const std::vector<ProposalRun>& runs);

struct Proposal {
  std::string text = {};
  std::optional<Efficiency> efficiency = {};
  int64_t images = 0;                  ///< the extrapolation is for so many
  std::optional<double> seconds = {};  ///< that they take on the hardware of the largest run
  std::optional<double> core_hours = {};
  std::optional<double> device_hours = {};
  std::optional<double> kwh = {};
};
Proposal propose(const std::vector<ProposalRun>& runs, const ProposalOptions& options);

}  // namespace ddpm::report
