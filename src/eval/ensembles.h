// Which samples are members of one condition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "comm/communicator.h"

namespace ddpm::eval {

/// How samples belong to conditions.
struct Ensembles {
  int64_t members = 1;              ///< how many each condition c has: samples c·members to (c + 1)·members - 1
  std::vector<int64_t> conditions;  ///< for each group of members, its image's place in the data; empty: unconditional
};

/// The conditions of `count` samples in `files`, the shards of the set `path`: by /condition_index and /member, as
/// `ddpm sample --condition` writes them, or, where `members` is given, sample c·members + m as member m of condition
/// c. Throws DatasetError's code on all ranks where groups are not whole. Collective.
Ensembles find_ensembles(comm::Communicator& comm, const std::string& path, const std::vector<base::Path>& files,
                         int64_t count, std::optional<int64_t> members);

/// The condition of each of `count` samples in these files, by /condition_index alone; empty where they record none.
/// Throws DatasetError's code on all ranks where there are more or fewer numbers than samples. Collective.
std::vector<int64_t> find_conditions(comm::Communicator& comm, const std::string& path,
                                     const std::vector<base::Path>& files, int64_t count);

}  // namespace ddpm::eval
