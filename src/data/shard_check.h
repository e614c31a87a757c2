// Inside src/data: whether files are what a dataset says they are, and what a bare .h5 file holds.
#pragma once

#include <optional>

#include "data/dataset_options.h"
#include "data/format.h"
#include "h5/file.h"

namespace ddpm::data {

/// Attribute of /checksums and its value: what the numbers are.
inline constexpr const char* kChecksumAttribute = "algorithm";
inline constexpr const char* kChecksumAlgorithm = "CRC-32C";

// Each function throws DatasetError.

/// Existence, size and header digest, before HDF5 sees the file: HDF5 does not survive all damaged metadata.
void check_shard_file(const Path& folder, const ShardInfo& shard);
/// Shape, type and place of a shard's images.
void check_shard_images(const h5::Dataset& images, const DatasetInfo& info, const ShardInfo& shard);
/// Shape and type of one value per image.
void check_shard_rows(const h5::Dataset& array, h5::Element element, int64_t count);

/// One .h5 file as a dataset of one shard, without statistics.
struct BareArrays {
  DatasetInfo info;
  bool channels_first = false;  ///< stored as [n, channels, height, width]
  std::optional<h5::Dataset> images;
  std::optional<h5::Dataset> labels;
  std::optional<h5::Dataset> checksums;  ///< only where a writer of this program left them
};
BareArrays open_bare_arrays(const h5::File& file, const DatasetOptions& options);

}  // namespace ddpm::data
