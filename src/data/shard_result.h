// What becomes of finished shards: the description of a dataset, and notes from which a later command goes on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/field.h"
#include "data/format.h"
#include "data/statistics.h"

namespace ddpm::data {

/// What a finished shard is. `info.file` and `info.first` are left to assemble().
struct ShardResult {
  ShardInfo info;
  Statistics statistics;  ///< statistics of the images, over pixels that their masks say are valid
};

/// Throws ConfigError for a value of --align that is not a multiple of kLeastAlignment up to kMostAlignment; 0 is none.
void expect_alignment(int64_t bytes);

/// The description of a dataset made of these shards, in order: fills in file names, first indices and statistics.
/// class_names may be empty. Throws DatasetError, with `name`, when there is no image at all, or no valid pixel.
DatasetInfo assemble(const std::string& name, std::vector<Field> fields, std::vector<std::string> class_names,
                     std::span<const ShardResult> shards, int64_t alignment = 0);

/// A finished shard as JSON text and back (for resuming `data create`); a bad text throws DatasetError.
std::string to_json_text(const ShardResult& shard);
ShardResult parse_shard_result(std::string_view text, const ImageFormat& format, const std::string& origin);

}  // namespace ddpm::data
