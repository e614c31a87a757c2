// One shard of `ddpm data create`, from files to a finished HDF5 file and its note.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "data/format.h"
#include "data/growing_folder.h"
#include "data/prepare/create_options.h"
#include "data/prepare/image_source.h"
#include "data/writer.h"
#include "layout/range.h"

namespace ddpm::data::prepare {

/// What is to be made: shard `index` of `folder`, from candidates `candidates` of the source.
struct ShardTask {
  GrowingFolder& folder;
  int64_t index = 0;
  layout::Range candidates;

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

/// Makes the shard, or takes over what an earlier create finished of the same source with the same options. On return
/// the file and its note are on disk. `on_image` is called after each image. Throws OutputError when writing
/// fails, DatasetError when the source does.
MadeShard make_shard(base::FileSystem& files, const CreateOptions& options, ImageSource& source, const ShardTask& task,
                     const std::function<void()>& on_image);

/// The stored form of the images that these options make.
ImageFormat stored_format(const CreateOptions& options);

}  // namespace ddpm::data::prepare
