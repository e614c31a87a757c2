// Inside src/data: whether files are what a dataset says they are, and what a bare .h5 file holds.
#pragma once

#include "data/bare_file.h"
#include "data/dataset_options.h"
#include "data/format.h"
#include "h5/file.h"

namespace ddpm::data {

/// Attribute of /checksums and its value: what the numbers are.
inline constexpr const char* kChecksumAttribute = "algorithm";
inline constexpr const char* kChecksumAlgorithm = "CRC-32C";

/// The elements that a shard has for a field's type.
h5::Element element_of(base::DType dtype);

// Each function throws DatasetError.

/// Existence, size and header digest, before HDF5 sees the file: HDF5 does not survive all damaged metadata.
void check_shard_file(const Path& path, const ShardInfo& shard);
/// Shape, type and place of a field's array in a shard; of what is per set, in the first shard.
void check_shard_array(const h5::Array& array, const Field& field, const DatasetInfo& info, const ShardInfo& shard);
/// Shape and type of one value per image.
void check_shard_rows(const h5::Array& array, h5::Element element, int64_t count);

/// A file whose images are one array, without a list of shards.
BareFile open_bare_file(const h5::File& file, const DatasetOptions& options);

}  // namespace ddpm::data
