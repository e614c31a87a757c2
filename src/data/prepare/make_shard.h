// One shard of `ddpm data create`, from files to a finished HDF5 file and its note.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "data/format.h"
#include "data/growing_folder.h"
#include "data/prepare/create_options.h"
#include "data/prepare/image_source.h"
#include "data/shard_result.h"

namespace ddpm::data::prepare {

/// What is to be made: shard `index` of `folder`, from these candidates of the source, whose stamps look_at() gave.
struct ShardTask {
  GrowingFolder& folder;
  int64_t index = 0;
  std::span<const int64_t> candidates;
  std::span<const base::FileStamp> stamps;

  [[nodiscard]] base::Path file() const { return folder.shard_file(index); }
};

struct MadeShard {
  ShardResult result;
  std::vector<Skipped> skipped;
  bool reused = false;
};

/// A shard as JSON text, and back; a bad text throws DatasetError. `reused` is not kept.
std::string to_json_text(const MadeShard& shard);
MadeShard parse_made_shard(std::string_view text, const ImageFormat& format, const std::string& origin);

using OnImage = std::function<void(int64_t k, std::span<const Skipped> skipped)>;

/// Makes the shard, or takes over what an earlier create finished of the same source with the same options. On return
/// the file and its note are on disk. on_image(k, skipped) is called after candidate k of the task, with all that was
/// left out of the shard until then. Throws OutputError when writing fails, DatasetError when the source does.
MadeShard make_shard(base::FileSystem& files, const CreateOptions& options, ImageSource& source, const ShardTask& task,
                     const OnImage& on_image);

/// The stored form of the images that these options make of a source of such a type.
ImageFormat stored_format(const CreateOptions& options, base::DType dtype);

}  // namespace ddpm::data::prepare
