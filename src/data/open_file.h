// Inside src/data: a file as a dataset of one shard, as the options say it is to be read.
#pragma once

#include "data/bare_file.h"
#include "data/dataset_options.h"
#include "h5/file.h"

namespace ddpm::data {

/// The array of its images and what goes with it, or the variables of which images are composed. Throws DatasetError.
/// Collective on a parallel file.
BareFile open_file(const h5::File& file, const DatasetOptions& options);

}  // namespace ddpm::data
