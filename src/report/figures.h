// All that a report says, before it becomes a page or JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/account.h"
#include "report/charts.h"
#include "report/judgement.h"
#include "report/measures.h"
#include "report/proposal.h"
#include "report/run_record.h"

namespace ddpm::report {

/// What follows from the record of one run.
struct RunFigures {
  Measures measures = {};
  Judgement judgement = {};
  Account account = {};
  std::vector<SlurmJob> jobs = {};
};

/// A key of the configuration in which runs differ; a run without the key has "".
struct DifferingKey {
  std::string path = {};
  std::vector<std::string> values = {};  ///< the key's value in each run
};

struct Figures {
  double now = 0.0;  ///< seconds since 1970
  std::vector<RunRecord> records = {};
  std::vector<RunFigures> runs = {};  ///< figures of each record
  std::vector<DifferingKey> differences = {};
  std::vector<Chart> charts = {};
  Proposal proposal = {};
  ProposalOptions options = {};

  /// What cannot be read of any run.
  [[nodiscard]] std::vector<std::string> damage() const;
};

/// `now` is the time that ages are counted to. Asks Slurm for its account of the runs' jobs.
Figures figures_of(std::vector<RunRecord> records, const ProposalOptions& options, double now);

/// The figures without pictures: what `ddpm report --json` prints.
base::OrderedJson to_json(const Figures& figures);
/// The charts as the page's script reads them.
base::OrderedJson to_json(const std::vector<Chart>& charts);

}  // namespace ddpm::report
