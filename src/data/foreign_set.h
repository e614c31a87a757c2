// Inside src/data: a foreign file as a shard of a dataset, whose images are composed of its variables.
#pragma once

#include "data/bare_file.h"
#include "data/dataset_options.h"
#include "h5/file.h"

namespace ddpm::data {

/// The file's variables that options.variables, condition, static_values, parameters and mask name, as fields of
/// float32 (masks: uint8). Throws DatasetError. Collective on a parallel file.
BareFile open_foreign_file(const h5::File& file, const DatasetOptions& options);

}  // namespace ddpm::data
