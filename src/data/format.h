// The dataset's description, DATASET/dataset.json: what the shards hold and how to know that they are whole.
//
// A dataset is a folder with dataset.json and shards of HDF5. A shard is laid out as
//   header: HDF5's own metadata, /checksums [n] uint32, /labels [n] int64 (optional)
//   images: /images [n, height, width, channels], contiguous, uint8 or float32, up to the end of the file
// so that one digest over the header and one CRC-32C per image cover every byte that is ever used. Other fields that
// are read in blocks lie among the images, each with its own /NAME_checksums [n] in the header, where all further
// fields lie.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "data/field.h"

namespace ddpm::data {

using base::Path;

inline constexpr int kFormatVersion = 2;  ///< 1 had no list of fields: images, and labels if it said so
inline constexpr std::string_view kDescriptionFile = "dataset.json";
/// What an alignment is a multiple of, and the largest: all bytes before the first image are read at each open.
inline constexpr int64_t kLeastAlignment = 4096;
inline constexpr int64_t kMostAlignment = int64_t{64} << 20;

/// Over all stored values of one channel (before normalization). std is the population's.
struct ChannelStatistics {
  double mean = 0.0;
  double std = 0.0;
  double min = 0.0;
  double max = 0.0;
  friend bool operator==(const ChannelStatistics&, const ChannelStatistics&) = default;
};

struct ShardInfo {
  std::string file;   ///< a plain name in the dataset's folder
  int64_t first = 0;  ///< index of its first image in the dataset
  int64_t count = 0;
  uint64_t size = 0;          ///< bytes
  std::string sha256;         ///< digest of the whole file, which `ddpm data verify` compares
  uint64_t header_size = 0;   ///< bytes before the first image or other value that is read in blocks
  std::string header_sha256;  ///< digest of these bytes, checked at each open before HDF5 sees the file
  friend bool operator==(const ShardInfo&, const ShardInfo&) = default;
};

struct DatasetInfo {
  int64_t count = 0;
  std::vector<Field> fields;                  ///< exactly one of images, and at most one of each other role
  std::vector<std::string> class_names;       ///< names of labels 0, 1, ...; empty: not known
  std::vector<ChannelStatistics> statistics;  ///< per channel; empty: not known (a bare .h5 file)
  std::vector<ShardInfo> shards;              ///< in order, without gaps
  /// Multiples of so many bytes of a shard's file at which images, conditions and masks begin; 0: nothing was asked
  /// for.
  int64_t alignment = 0;

  /// The place in `fields` of the field with a role; fields.size(): there is none.
  [[nodiscard]] std::size_t find(FieldRole role) const;
  [[nodiscard]] bool has_labels() const { return find(FieldRole::labels) < fields.size(); }
  [[nodiscard]] const Field& image_field() const { return fields.at(find(FieldRole::image)); }
  [[nodiscard]] ImageFormat image() const;
  /// Whether there are flat images and perhaps labels alone, and normalization() says all of how they are mapped.
  [[nodiscard]] bool has_images_of_one_map() const;
  /// The map of all channels of the images: see Field::common_map().
  [[nodiscard]] Normalization normalization() const { return image_field().common_map(); }
  friend bool operator==(const DatasetInfo&, const DatasetInfo&) = default;
};

/// The array of the CRC-32C of each image's values of a field that is read in blocks: "/checksums" for images.
std::string checksums_path(const Field& field);

/// "shard-00003-of-00008.h5"
std::string shard_file_name(int64_t index, int64_t shards);
inline constexpr int64_t kMostShards = 99'999;  ///< five digits in the name

/// The text of dataset.json: keys in a fixed order, last the SHA-256 of the text without it.
std::string to_json_text(const DatasetInfo& info);
/// The strict reverse: unknown version, missing or unknown keys, wrong checksum, counts that do not add up, names with
/// separators, or absurd sizes throw DatasetError. `origin` names the file in messages.
DatasetInfo parse_dataset_info(std::string_view text, const std::string& origin);

/// dataset.json of a folder.
DatasetInfo read_dataset_info(const Path& folder);
/// Replaces dataset.json atomically. The shards must be in place before: this publishes the dataset.
void write_dataset_info(base::FileSystem& files, const Path& folder, const DatasetInfo& info);

/// SHA-256 of the first `bytes` of a file, as in ShardInfo::header_sha256. Throws DatasetError when it is shorter.
std::string sha256_of_prefix(const Path& path, uint64_t bytes);

}  // namespace ddpm::data
