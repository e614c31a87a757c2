// Inside src/data: whether files are what a dataset says they are, and what a bare .h5 file holds.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset_options.h"
#include "data/format.h"
#include "data/rows.h"
#include "h5/file.h"

namespace ddpm::data {

/// Attribute of /checksums and its value: what the numbers are.
inline constexpr const char* kChecksumAttribute = "algorithm";
inline constexpr const char* kChecksumAlgorithm = "CRC-32C";

// Each function throws DatasetError.

/// Existence, size and header digest, before HDF5 sees the file: HDF5 does not survive all damaged metadata.
void check_shard_file(const Path& path, const ShardInfo& shard);
/// Shape, type and place of a field's array in a shard; of what is per set, in the first shard.
void check_shard_array(const h5::Dataset& array, const Field& field, const DatasetInfo& info, const ShardInfo& shard);
/// Shape and type of one value per image.
void check_shard_rows(const h5::Dataset& array, h5::Element element, int64_t count);

/// One .h5 file as a dataset of one shard, without statistics.
struct BareFile {
  DatasetInfo info;
  std::vector<std::unique_ptr<Rows>> rows;  ///< of info.fields, in their order: first the images
  std::optional<h5::Dataset> checksums;     ///< of the images, only where a writer of this program left them
  std::string description = {};             ///< how a foreign file is read: all that values depend on beside its bytes
  std::map<std::string, std::vector<double>> coordinates = {};  ///< of the axes of a foreign file's images
  std::vector<bool> periodic = {};  ///< whether these axes are, where a foreign file says so; empty: nothing is known

  [[nodiscard]] std::unique_ptr<Rows>& rows_of(const Field& field);
};
BareFile open_bare_file(const h5::File& file, const DatasetOptions& options);

}  // namespace ddpm::data
