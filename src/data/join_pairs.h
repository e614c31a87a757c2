// Inside src/data: pairs of places along time that reach from one file into the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/bare_file.h"
#include "data/dataset_options.h"

namespace ddpm::data {

/// Lets the pairs (`options.lead`) of each foreign file reach into the files after it as long as their times go on: in
/// the same unit, one step after the other. Sets how many images each file has, and returns for each the last file that
/// they are read from. Throws DatasetError where there is no pair.
std::vector<std::size_t> join_pairs(std::vector<BareFile>& files, const DatasetOptions& options,
                                    const std::string& name);

}  // namespace ddpm::data
