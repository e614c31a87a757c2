// What `ddpm data create` has made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/field.h"
#include "data/prepare/endings.h"

namespace ddpm::data::prepare {

/// Images gone through on all ranks, as far as this rank can tell from its own share, and all there are.
struct CreateProgress {
  int64_t done = 0;
  int64_t total = 0;
};

struct CreateResult {
  int64_t images = 0;             ///< images in all sets together
  int64_t validation_images = 0;  ///< how many of them are in the validation set
  int64_t skipped = 0;
  std::string first_skipped;  ///< "path: reason"
  EndingCounts other_files;   ///< files that are not pictures of a kind that is read
  int64_t shards = 0;
  int64_t reused_shards = 0;  ///< taken over from an earlier create that did not finish
  int64_t classes = 0;
  int64_t bytes = 0;               ///< total size of the dataset's files
  std::vector<Field> fields = {};  ///< list of fields, as dataset.json has it

  [[nodiscard]] const Field& images_field() const { return *field_of(fields, FieldRole::image); }
};

}  // namespace ddpm::data::prepare
