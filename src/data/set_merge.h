// Several sets as one.
#pragma once

#include <string>

#include "data/format.h"

namespace ddpm::data {

/// Puts the images and shards of another set behind those of `all`. Its fields and class names must be the same: throws
/// DatasetError, in which the sets are called `first` and `name`.
void append_set(DatasetInfo& all, DatasetInfo set, const std::string& first, const std::string& name);

}  // namespace ddpm::data
