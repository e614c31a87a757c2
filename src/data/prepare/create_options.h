// What `ddpm data create` is asked to make.
#pragma once

#include "base/file_system.h"
#include "data/prepare/bad_limit.h"
#include "data/prepare/find_source.h"
#include "data/prepare/fit.h"

namespace ddpm::data::prepare {

struct CreateOptions {
  SourceOptions source;
  base::Path output;
  FitOptions fit;
  int channels = 3;  ///< 1 or 3
  int shards = 8;    ///< fewer when there are fewer images
  BadLimit max_bad;  ///< more unusable pictures than that end the work
  /// Such a share of the images, told by a hash of their names, becomes a set of its own in the output's folder
  /// "validation"; 0: none.
  double validation_percent = 0.0;
};

}  // namespace ddpm::data::prepare
