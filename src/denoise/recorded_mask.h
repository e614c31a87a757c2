// The one mask of a training set, as a model remembers it: what it draws has no values where the set's images had none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace ddpm::denoise {

struct RecordedMask {
  std::vector<int64_t> sides = {};  ///< height and width of whole images, of volumes with the depth before
  std::vector<bool> valid = {};     ///< of each pixel, row by row

  /// The reverse of to_json(); throws OutputError that begins with `place`.
  static RecordedMask parse(const base::Json& json, const std::string& place);

  [[nodiscard]] bool empty() const { return valid.empty(); }
  /// {"sides": [...], "bits": "..."}: base64 of bytes that hold eight pixels each, the first in the lowest bit.
  [[nodiscard]] base::Json to_json() const;
  friend bool operator==(const RecordedMask&, const RecordedMask&) = default;
};

}  // namespace ddpm::denoise
