// Archives of pictures, tar or zip, as the source of a dataset. They are never unpacked to disk.
//
// Labels are those of WebDataset: the files of one sample have one key, their name up to the first dot behind the last
// slash, and KEY.cls holds the number of its class, or KEY.json an object with such a number as "label" or "cls".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "data/prepare/pictures.h"

namespace ddpm::data::prepare {

/// Where a picture lies.
struct ArchivedPicture {
  std::string name;     ///< in its archive
  int64_t archive = 0;  ///< its place in ArchiveSet::paths
  int64_t entry = 0;    ///< its place in the archive
  int64_t offset = -1;  ///< where its bytes begin in a tar file that is not packed; otherwise -1
  int64_t size = 0;     ///< how many bytes it has; -1: not known
  int64_t label = -1;   ///< -1: none
};

struct ArchiveSet {
  PictureSet set;
  std::vector<base::Path> paths;
  std::vector<base::FileStamp> stamps;    ///< state of each archive when it was looked through
  std::vector<ArchivedPicture> pictures;  ///< in the order of the archives and of the entries in each
  std::string no_label;                   ///< why a picture has none
};

enum class ArchiveLabels : uint8_t { kept, folder, none };

/// Looks through the archives: names, places and labels. Hidden files are passed over, as in a folder. Throws
/// DatasetError for an archive that is damaged, that holds a picture's name twice, or whose labels are no numbers.
ArchiveSet list_archives(const std::vector<base::Path>& paths, ArchiveLabels labels, const PictureLimits& limits);

/// A set as text and back, so that one rank can look at the archives and all know.
std::string pack(const ArchiveSet& set);
ArchiveSet unpack_archives(const std::string& text);

/// Reads the pictures: see read_pictures(). Those of a tar file that is not packed are read at their places; others are
/// unpacked in their order, from the archive's beginning.
std::unique_ptr<ImageSource> read_archives(ArchiveSet set, const PictureLimits& limits);

}  // namespace ddpm::data::prepare
