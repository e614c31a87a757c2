// How `ddpm data inspect` and `ddpm data stats` tell of classes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "data/dataset.h"

namespace ddpm::cli {

/// The images of each class, by the labels in the shards: of every class that has a name or an image.
std::map<int64_t, int64_t> class_counts(const data::Dataset& dataset);
/// The name of a class, or its number.
std::string class_name(const data::DatasetInfo& info, int64_t id);

}  // namespace ddpm::cli
