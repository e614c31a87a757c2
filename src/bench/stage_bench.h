// `ddpm bench stages`: how long each unit of a model takes, and which stages of a pipeline that makes equally long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/format.h"
#include "layout/range.h"
#include "nn/config.h"
#include "run/runtime.h"
#include "train/config.h"

namespace ddpm::bench {

struct StageBenchOptions {
  int64_t stages = 2;
  int64_t repeats = 5;  ///< passes through each unit, of which the fastest counts
};

struct UnitBench {
  std::string name = {};
  double operations = 0.0;  ///< floating-point operations per image, forward and backward
  double seconds = 0.0;     ///< time of a micro-batch, forward and backward, on the slowest rank
};

struct StageBench {
  int threads = 1;
  std::string precision = {};
  int64_t micro_size = 0;
  std::vector<UnitBench> units = {};
  std::vector<layout::Range> by_operations = {};
  std::vector<layout::Range> by_seconds = {};

  /// Seconds of the slowest stage.
  [[nodiscard]] double slowest(const std::vector<layout::Range>& stages) const;
  /// What parallel.stage_units would be.
  static std::vector<int64_t> unit_counts(const std::vector<layout::Range>& stages);
};

/// Runs the units of `model` on images of the given format, one after the other, each on all ranks at once:
/// one rank measures for many, with the defaults of [parallel] in `config`. Collective. Throws ConfigError for more
/// stages than units.
StageBench bench_stages(const train::Config& config, const nn::UNet2DConfig& model, const data::ImageFormat& image,
                        const run::Runtime& runtime, const StageBenchOptions& options);

}  // namespace ddpm::bench
