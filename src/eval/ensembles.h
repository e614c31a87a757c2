// Which samples are members of one condition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"

namespace ddpm::eval {

/// How samples belong to conditions.
struct Ensembles {
  int64_t members = 1;              ///< how many each condition c has: samples c·members to (c + 1)·members - 1
  std::vector<int64_t> conditions;  ///< for each group of members, its image's place in the data; empty: unconditional
};

/// The arrays of a set that tell of its samples' conditions.
std::vector<std::string> condition_arrays();

/// The conditions of the `count` samples at `path`, whose dataset is null of what has no arrays: by /condition_index
/// and /member, as `ddpm sample --condition` writes them, or, where `members` is given, sample c·members + m as member
/// m of condition c. Throws DatasetError's code on all ranks where groups are not whole. Collective.
Ensembles find_ensembles(comm::Communicator& comm, const std::string& path, const data::Dataset* set, int64_t count,
                         std::optional<int64_t> members);

/// The condition of each sample of a set, by /condition_index alone; empty where it records none, or is null. Throws
/// DatasetError's code on all ranks where there are more or fewer numbers than samples. Collective.
std::vector<int64_t> find_conditions(comm::Communicator& comm, const data::Dataset* set);

}  // namespace ddpm::eval
