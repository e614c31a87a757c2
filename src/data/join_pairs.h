// Inside src/data: pairs of places along time that reach from one file into the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/bare_file.h"
#include "data/dataset_options.h"

namespace ddpm::data {

struct JoinedPairs {
  std::vector<std::size_t> last = {};  ///< for each file, the last one that its images are read from
  int64_t left_out = 0;                ///< pairs within one file between whose places times are missing
};

/// Lets the pairs (`options.lead`) of each foreign file reach into the files after it as long as their times go on: in
/// the same unit, about one step after the other. Leaves out pairs between whose places there is another step. Sets
/// which images each file has. Throws DatasetError where there is no pair.
JoinedPairs join_pairs(std::vector<BareFile>& files, const DatasetOptions& options, const std::string& name);

}  // namespace ddpm::data
