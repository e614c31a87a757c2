// Images as records of equal size in files: what IDX and CIFAR files are once their layout is known.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "data/prepare/image_source.h"
#include "data/prepare/packed_file.h"

namespace ddpm::data::prepare {

/// Something that each record of a file has: that of record k begins at byte first + k * stride (unpacked).
struct Column {
  base::Path path;
  FileStamp stamp;  ///< the file when it was looked at; in another state it is not read
  uint64_t first = 0;
  uint64_t stride = 0;
};

/// Images of one size, in 8 bits.
struct RecordFile {
  int64_t count = 0;
  int height = 0;
  int width = 0;
  int channels = 0;     ///< 1 or 3
  bool planar = false;  ///< [channels, height, width] instead of [height, width, channels]
  int64_t classes = 0;  ///< labels are below this number; 0 without labels
  Column images;
  std::optional<Column> labels;  ///< one byte each
};

/// The files of one source, in order: all with labels, or none.
struct RecordSet {
  std::string format;  ///< for people: "IDX"
  std::vector<RecordFile> files;
  std::vector<std::string> class_names;
};

/// The largest of `count` labels. One above `most` throws DatasetError that names its record and `format`.
int64_t largest_label(PackedFile& file, const Column& labels, int64_t count, int64_t most, const std::string& format);

/// The set as text and back, so that one rank can look at the files and all know.
std::string pack(const RecordSet& set);
RecordSet unpack_records(const std::string& text);

/// Reads the records; keeps one file of images and one of labels open. Throws DatasetError when a file is no longer the
/// one that was looked at.
std::unique_ptr<ImageSource> read_records(RecordSet set);

}  // namespace ddpm::data::prepare
