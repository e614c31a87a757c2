// A dataset of generated samples, which all ranks write.
//
// The samples are cut into shards of neighbours, as a function of their number alone; shard i is made whole by rank i
// mod size. Nothing appears under the output's name before all is there, and a command that was interrupted continues
// with the shards that are missing (data/growing_folder.h).
#pragma once

#include <cstdint>

#include "base/file_system.h"
#include "base/progress_report.h"
#include "comm/communicator.h"
#include "generate/generator.h"

namespace ddpm::generate {

inline constexpr int64_t kMostSamples = int64_t{1} << 31;

struct SetOptions {
  base::Path output;
  int64_t count = 0;      ///< 1 to kMostSamples
  int64_t shards = 8;     ///< 1 to data::kMostShards; fewer when there are fewer samples
  int64_t alignment = 0;  ///< images begin at multiples of so many bytes of a shard's file: data/format.h
  uint64_t seed = 0;      ///< what the generator was made with
};

struct GeneratedSet {
  int64_t shards = 0;
  int64_t reused_shards = 0;  ///< taken over from an earlier command that did not finish
  int64_t bytes = 0;          ///< total size of the shards
};

/// Collective; the same result on every rank. Beside the shards the folder gets generate.json: the generator's
/// description, seed and count. `progress` is told of samples of all ranks, as far as this rank can tell from its own
/// share. Throws ConfigError for a count or shards outside their range and for an output that is not a name,
/// OutputError when the output exists, another job fills it, or writing fails; then no output appears.
GeneratedSet make_set(comm::Communicator& comm, base::FileSystem& files, const SetOptions& options,
                      Generator& generator, const base::ProgressReport& progress = {});

}  // namespace ddpm::generate
