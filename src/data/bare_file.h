// Inside src/data: what a file holds that lists nothing itself.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/format.h"
#include "data/rows.h"
#include "h5/file.h"

namespace ddpm::data {

class ForeignRows;

/// One .h5 file as a dataset of one shard, without statistics.
struct BareFile {
  /// The coordinates of the last axis along which images follow each other; none where it has none.
  struct Times {
    std::vector<double> places = {};
    std::string unit = {};
  };

  DatasetInfo info;
  std::vector<std::unique_ptr<Rows>> rows;  ///< one for each field of info.fields, in that order: images first
  std::optional<h5::Array> checksums;       ///< CRC-32C of each image; only where a writer of this program left them
  std::string description = {};             ///< how a foreign file is read: all that values depend on besides its bytes
  std::map<std::string, std::vector<double>> coordinates = {};  ///< a foreign file's coordinates along each image axis
  Times times = {};                                             ///< times of a foreign file's images
  std::vector<ForeignRows*> foreign = {};  ///< those of `rows` that give a foreign file's values image by image
  std::vector<bool> periodic = {};  ///< whether these axes are, where a foreign file says so; empty: nothing is known

  [[nodiscard]] std::unique_ptr<Rows>& rows_of(const Field& field);
};

}  // namespace ddpm::data
