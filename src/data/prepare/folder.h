// A folder of PNG and JPEG files as the source of a dataset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace ddpm::data::prepare {

/// A file or folder that was left out, and why.
struct Skipped {
  std::string path;  ///< relative to the source, with '/'
  std::string reason;
};

struct FolderListing {
  std::vector<std::string> images;       ///< relative paths in bytewise order: the same on every machine
  std::vector<Skipped> skipped;          ///< unreadable folders, names that lead nowhere or to no file
  int64_t other_files = 0;               ///< files with other extensions
  std::vector<std::string> class_names;  ///< top-level folders that hold images, in bytewise order

  /// The class id of a path of `images`, or -1 for a file at the top level.
  [[nodiscard]] int64_t class_of(const std::string& path) const;
};

/// Lists `root` at any depth: names that end in .png, .jpg or .jpeg in any case. Hidden files and folders are passed
/// over. Symbolic links are followed, except one that leads back to a folder it lies in. Throws DatasetError when
/// `root` is not a readable folder.
FolderListing list_folder(const base::Path& root);

/// A listing as text and back, so that one rank can list and all know.
std::string pack(const FolderListing& listing);
FolderListing unpack(const std::string& text);

}  // namespace ddpm::data::prepare
