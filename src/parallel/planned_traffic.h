// What ranks that hold tiles of images, or parts of blocks, send each other in a training pass: counted on the meta
// device, where nothing travels (parallel/planned_tile.h).
#pragma once

#include <cstdint>
#include <vector>

#include "nn/unet2d.h"
#include "parallel/activation_checkpointing.h"
#include "parallel/meta_forward.h"
#include "parallel/planned_tile.h"

namespace ddpm::parallel {

struct RankTraffic {
  TileTraffic tiles;
  ChannelTraffic channels;

  RankTraffic& operator+=(const RankTraffic& other);
};

/// A micro-batch of `images`, of which `tile` is here.
ActivationBatch batch_of(const PlannedTile& tile, int64_t images);

/// What is sent for each unit of `unet`, which is bound on the meta device, with a micro-batch: forward, backward, and
/// again where backward runs forward a second time for what `kept` leaves out, up to the last tensor that it wants.
std::vector<RankTraffic> count_traffic(const nn::UNet2D& unet, const PlannedTile& tile, int64_t images,
                                       ActivationCheckpointing kept);

}  // namespace ddpm::parallel
