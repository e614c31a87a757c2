// A folder of PNG and JPEG files as the source of a dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "data/prepare/decode.h"
#include "data/prepare/endings.h"
#include "data/prepare/image_source.h"

namespace ddpm::data::prepare {

struct FolderListing {
  std::vector<std::string> images;       ///< relative paths in bytewise order: the same on every machine
  std::vector<Skipped> skipped;          ///< links that lead nowhere or in circles, names of no file, other formats
  EndingCounts other_files;              ///< files with other endings
  std::vector<std::string> class_names;  ///< top-level folders that hold images, in bytewise order

  /// The class id of a path of `images`, or -1 for a file at the top level.
  [[nodiscard]] int64_t class_of(const std::string& path) const;
};

/// Lists `root` at any depth: names that end in .png, .jpg or .jpeg in any case. Hidden files and folders are passed
/// over. Symbolic links are followed, except one that leads back to a folder it lies in. Files with other endings are
/// counted; those of formats in which pictures come are also left out by name. Throws DatasetError when `root` is not a
/// folder, and when anything in it cannot be listed or looked at.
FolderListing list_folder(const base::Path& root);

/// A listing as text and back, so that one rank can list and all know.
std::string pack(const FolderListing& listing);
FolderListing unpack_listing(const std::string& text);

/// What a picture may cost.
struct PictureLimits {
  DecodeLimits decode;
  uint64_t max_file_bytes = uint64_t{1} << 29;  ///< larger files are left out
};

/// The pictures of the folder `root` that was listed. What cannot be decoded is left out; with `labels` also what is in
/// no folder that could be its class. What cannot be read, because it is gone, permission is lacking or the machine
/// fails, says nothing of the picture: it throws DatasetError. `files` outlives the source.
std::unique_ptr<ImageSource> read_folder(const base::FileSystem& files, base::Path root, FolderListing listing,
                                         bool labels, const PictureLimits& limits);

}  // namespace ddpm::data::prepare
