// A folder of PNG, JPEG, WebP and TIFF files as the source of a dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file_system.h"
#include "data/prepare/endings.h"
#include "data/prepare/image_source.h"
#include "data/prepare/pictures.h"

namespace ddpm::data::prepare {

struct FolderListing {
  std::vector<std::string> images;       ///< relative paths in bytewise order: the same on every machine
  std::vector<Skipped> skipped;          ///< links that lead nowhere or in circles, names of no file, other formats
  EndingCounts other_files;              ///< files with other endings
  base::DType dtype = base::DType::u8;   ///< type that pixels are stored in; list_folder() does not set it
  std::vector<std::string> class_names;  ///< top-level folders that hold images, in bytewise order

  /// The class id of a path of `images`, or -1 for a file at the top level.
  [[nodiscard]] int64_t class_of(const std::string& path) const;
};

/// Lists `root` at any depth: names that end in .png, .jpg, .jpeg, .webp, .tif or .tiff in any case. Hidden files and
/// folders are passed over. Symbolic links are followed, except one that leads back to a folder it lies in. Files with
/// other endings are counted; those of formats in which pictures come are also left out by name. Throws DatasetError
/// when `root` is not a folder, and when anything in it cannot be listed or looked at.
FolderListing list_folder(const base::FileSystem& files, const base::Path& root);

/// A listing as text and back, so that one rank can list and all know.
std::string pack(const FolderListing& listing);
FolderListing unpack_listing(const std::string& text);

/// The classes of pictures of these paths: their top-level folders, in bytewise order.
std::vector<std::string> top_folders(const std::vector<std::string>& paths);
/// The place in `folders`, which are in order, of the top-level folder of a path, or -1.
int64_t top_folder_in(const std::vector<std::string>& folders, std::string_view path);
/// Why a picture has no class where folders are classes.
inline constexpr const char* kInNoClass = "not in a folder that could be its class";

/// The pictures of the folder `root` that was listed, with `labels` those of their top-level folders: see
/// read_pictures().
std::unique_ptr<ImageSource> read_folder(const base::FileSystem& files, base::Path root, FolderListing listing,
                                         bool labels, const PictureLimits& limits);

}  // namespace ddpm::data::prepare
