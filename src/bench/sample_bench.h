// `ddpm bench sample`: how fast a model of a configuration draws images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/spread.h"
#include "run/runtime.h"
#include "train/config.h"

namespace ddpm::bench {

inline constexpr auto kSamplerOfDdpm = diffusion::SamplerType::ddim;

struct SampleBenchOptions {
  /// Not set: kSamplerOfDdpm, or of other formulations their own.
  std::optional<diffusion::SamplerType> scheduler = std::nullopt;
  int64_t steps = 10;
  int64_t batch = 16;  ///< images of each rank
  int64_t repeats = 3;
};

/// Figures are those of all ranks together. A round of batches is as long as its slowest rank.
struct SampleBench {
  int ranks = 1;
  int threads = 1;  ///< threads per rank
  std::string precision;
  int64_t steps = 0;
  int64_t batch = 0;
  Spread images_per_second;
  Spread seconds_per_step;  ///< time of one sampler step, which may call the model more than once
};

/// Draws batches with `model`, which has the size of its images, and initial weights: what the weights are takes no
/// other time. What a model is given beside noisy images is zeros. Collective. Throws ConfigError.
SampleBench bench_sample(const train::Config& config, const nn::UNet2DConfig& model, const run::Runtime& runtime,
                         const SampleBenchOptions& options);

}  // namespace ddpm::bench
