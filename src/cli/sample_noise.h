// --initial-noise: what images are made of, from a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "denoise/sampling.h"
#include "nn/partition.h"

namespace ddpm::cli {

/// Reads the noise of images out of an .npy of float32 [count, C, H, W] or [count, C, D, H, W], which is `shape`, and
/// gives of each the part that is here; `partition` outlives the source. Throws ConfigError for another shape, and for
/// values that are not finite.
denoise::NoiseSource noise_of_file(const std::string& path, const std::vector<int64_t>& shape,
                                   const nn::Partition& partition);

}  // namespace ddpm::cli
