// A model as the numbers that plans are made from: counted on the meta device, which computes shapes and no values.
#pragma once

#include <cstdint>
#include <vector>

#include "data/format.h"
#include "layout/tiling.h"
#include "nn/config.h"
#include "parallel/config.h"
#include "plan/arrangement.h"

namespace ddpm::plan {

/// How ranks cut a model and its images.
struct Cuts {
  layout::Tiling tiling = {};
  int64_t channel_parts = 1;
  int64_t stages = 1;
  std::vector<int64_t> stage_units = {};  ///< parallel.stage_units
  bool on_gpu = false;                    ///< tiles are normalised by other operations there
};

/// `model` with sample_size set. Activations are those of one micro-batch of `micro_size` images, or of tiles of them,
/// in float32, or in two bytes with `mixed_precision`. Of stages, each number is that of the one where it is largest;
/// as many micro-batches are under way in one as there are stages after it, and one, or all of a shorter step. Throws
/// ConfigError for channels that cannot be cut so.
ModelSizes model_sizes(const nn::UNet2DConfig& model, const data::ImageFormat& image, int64_t micro_size,
                       bool mixed_precision, parallel::ActivationCheckpointing checkpointing, const Cuts& cuts = {});

/// Adds what the tile with most neighbours sends in a forward pass of `model` in float32, which nothing follows.
void add_forward_traffic(const nn::UNet2DConfig& model, const layout::Tiling& tiling, int64_t micro_size, bool on_gpu,
                         ModelSizes& sizes);

}  // namespace ddpm::plan
