// What `ddpm bench stages` prints.
#pragma once

#include <string>

#include "base/json.h"
#include "bench/stage_bench.h"

namespace ddpm::cli {

/// A table of the units, and the keys that cut the pipeline so.
std::string stages_text(const bench::StageBench& bench);
base::OrderedJson stages_json(const bench::StageBench& bench);

}  // namespace ddpm::cli
