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
  std::vector<std::unique_ptr<Rows>> rows;  ///< of info.fields, in their order: first the images
  std::optional<h5::Array> checksums;       ///< of the images, only where a writer of this program left them
  std::string description = {};             ///< how a foreign file is read: all that values depend on beside its bytes
  std::map<std::string, std::vector<double>> coordinates = {};  ///< of the axes of a foreign file's images
  Times times = {};                                             ///< of a foreign file
  std::vector<ForeignRows*> foreign = {};  ///< those of `rows` that a foreign file has of each image
  std::vector<bool> periodic = {};  ///< whether these axes are, where a foreign file says so; empty: nothing is known

  [[nodiscard]] std::unique_ptr<Rows>& rows_of(const Field& field);
};

}  // namespace ddpm::data
