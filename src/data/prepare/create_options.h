// What `ddpm data create` is asked to make.
#pragma once

#include "base/file_system.h"
#include "data/prepare/find_source.h"
#include "data/prepare/fit.h"

namespace ddpm::data::prepare {

struct CreateOptions {
  SourceOptions source;
  base::Path output;
  FitOptions fit;
  int channels = 3;  ///< 1 or 3
  int shards = 8;    ///< fewer when there are fewer images
};

}  // namespace ddpm::data::prepare
