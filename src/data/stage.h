// Copies of training sets on storage that each host has for itself (data.stage).
#pragma once

#include <functional>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "data/dataset.h"

namespace ddpm::data {

/// A rank among those of its host.
struct HostRank {
  int rank = 0;
  int size = 1;
};

/// Throws DatasetError for a set that is not a folder: what stage_sets() would not copy.
void expect_stageable(const Path& set);

/// Copies each set, a folder, to `stage` on every host and returns the copies. The ranks of a host deal out the shards,
/// and compare each with its SHA-256 as they copy it; what an earlier start has copied is used again, and what a killed
/// one has left half copied is removed. A copy that is in doubt, or whose dataset.json is not the set's, is compared
/// with the digests, and shards that differ are replaced; a doubt that is cast after the first look stays. Collective.
/// Throws DatasetError for a set that is not a folder and for a damaged shard of it, and OutputError where a host has
/// no room.
std::vector<Dataset::Source> stage_sets(comm::Communicator& comm, const HostRank& host,
                                        const std::vector<Dataset::Source>& sources, const Path& stage,
                                        base::FileSystem& files, const base::Logger& log);

/// Runs `work`, which reads copies in `stage`. An error of the dataset that names a file of a copy leaves that copy in
/// doubt, for the next start: nothing is changed under other jobs of the host that read it now. The error says so.
void doubt_damaged_copies(const Path& stage, base::FileSystem& files, const std::function<void()>& work);

}  // namespace ddpm::data
