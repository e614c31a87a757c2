// The shards of a growing folder, made by all ranks: those that an earlier command finished are taken over, the others
// are dealt out. See data/growing_folder.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress_report.h"
#include "comm/communicator.h"
#include "data/growing_folder.h"
#include "data/shard_result.h"
#include "layout/range.h"

namespace ddpm::data {

/// Is told how many of a shard's images are made, or how much of them.
using ShardProgress = std::function<void(double images)>;

/// How a set is made shard by shard. All are functions of the shard alone, on any rank.
struct ShardFilling {
  ImageFormat format;                                  ///< shape and type of each image
  std::function<layout::Range(int64_t shard)> images;  ///< which images of the set a shard holds; at least one
  /// All that the shard's bytes depend on: a shard with another fingerprint is made anew.
  std::function<std::string(int64_t shard)> fingerprint;
  /// Makes the file. Whatever an earlier command left there is removed before, its note is written after.
  std::function<ShardResult(int64_t shard, const ShardProgress& progress)> make;
  /// Images of all ranks that are done, as far as this rank can tell from its own, and of the whole set. The first call
  /// tells how many were taken over.
  base::ProgressReport progress = {};
};

struct FilledShards {
  std::vector<ShardResult> results;  ///< one for each shard, in order
  int64_t reused = 0;                ///< shards that were taken over
  int64_t reused_images = 0;
};

/// Collective, after GrowingFolder::join(); the same result on every rank. Ranks agree after each round of one shard
/// each, so that none works on for long when another has failed, and all throw what `make` throws on one.
FilledShards fill_shards(comm::Communicator& comm, GrowingFolder& folder, const ShardFilling& filling);

/// Logs that some of these ranks have nothing to do where there are fewer shards.
void tell_idle_ranks(const base::Logger& log, int64_t shards, int ranks);

}  // namespace ddpm::data
