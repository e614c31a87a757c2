// `ddpm eval fields`: samples of fields against the data, against exact values, and of one model against another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/progress_report.h"
#include "comm/communicator.h"
#include "data/dataset_options.h"
#include "eval/field_study.h"
#include "eval/result.h"
#include "eval/sample_set.h"

namespace ddpm::eval {

struct FieldRequest {
  std::vector<base::Path> samples;      ///< sample sets of one model, such as one of each seed
  std::vector<base::Path> others = {};  ///< those of another model, which is compared with it
  base::Path data = {};                 ///< the truth; empty: only exact values are asked for
  data::DatasetOptions reading = {};    ///< how the data are read
  std::string exact = {};               ///< "u1,beta=1.5"; empty: none
  std::optional<int64_t> members = {};  ///< samples of each condition, where the sets do not say so
  bool unpaired = false;                ///< take samples of conditions for a draw like any other
  int64_t block = 1;                    ///< successive images of the data whose errors go together
  Units units = Units::automatic;
};

/// Collective; the result is the same on every rank, bit for bit, for any number of ranks. Throws ConfigError for what
/// cannot be asked, and DatasetError for sets that do not fit or hold values that cannot be used, on all ranks.
/// `progress` is told how many samples this rank has read, and how many it reads in all.
Result evaluate_fields(comm::Communicator& comm, const FieldRequest& request,
                       const base::ProgressReport& progress = {});

/// Throws NumericsError where a value is more than `sigmas` standard errors off its exact value, and DatasetError where
/// there are no errors to count in.
void expect_within(const Result& result, double sigmas);

}  // namespace ddpm::eval
