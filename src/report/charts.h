// The curves of a page.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"
#include "report/stats.h"

namespace ddpm::report {

struct Series {
  std::string name = {};  ///< the run's, or "lowest timesteps"
  Curve curve = {};
  /// That of the run, or of the name in a chart of one run: the same place has the same colour in every chart.
  std::size_t place = 0;
};

struct Chart {
  std::string title = {};
  std::string unit = {};     ///< "" for a number without one
  std::string note = {};     ///< what is drawn: "moving mean and its 95 % interval"
  bool logarithmic = false;  ///< whether it begins with a logarithmic axis
  std::vector<Series> series = {};
};

/// The charts that the runs have numbers for: each metric over the steps, and what programs have logged of their own,
/// the runs in one picture; then, a chart for each run, the loss by quarter of the timesteps, the validation loss by
/// level and variable, and norms by block.
std::vector<Chart> charts_of(const std::vector<RunRecord>& runs);

}  // namespace ddpm::report
