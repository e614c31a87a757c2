// `ddpm eval samples`: sets of pictures against the pictures that a model was trained on.
#pragma once

#include "base/file_system.h"
#include "comm/communicator.h"
#include "eval/result.h"
#include "eval/samples_options.h"

namespace ddpm::eval {

/// Refuses sets that cannot be measured: volumes, and fewer pictures than a metric needs. Throws DatasetError.
void expect_measurable(const SampleSets& sets, const SamplesOptions& options);

/// Measures. The same result, bit for bit, on any number of ranks that have as many threads each. Throws on all ranks.
/// Collective.
Result evaluate_samples(comm::Communicator& world, const SampleSets& sets, const SamplesOptions& options,
                        base::FileSystem& files, const Reporting& reporting);

}  // namespace ddpm::eval
