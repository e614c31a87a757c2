// The tiles in which ranks train, or draw, images together.
#pragma once

#include <memory>

#include "base/trace.h"
#include "comm/communicator.h"
#include "denoise/loaded_model.h"
#include "denoise/tile_pair.h"
#include "layout/tiling.h"
#include "nn/unet2d.h"
#include "parallel/tile_partition.h"

namespace ddpm::train {

class ModelTiles {
 public:
  /// Whole images and whole blocks.
  ModelTiles() = default;
  /// `tiles`: the ranks that hold tiles of the same images, and `channels` those that hold parts of the same blocks of
  /// `model`; null: they are whole. `mean`: the regression that is taken off the images, or null. See TilePartition for
  /// what outlives the object. Collective over `tiles`.
  ModelTiles(const layout::Tiling& tiling, const nn::UNet2D& model, const denoise::LoadedModel* mean,
             comm::Communicator* tiles, comm::Communicator* channels, parallel::TransferQueue::Mode trades);

  [[nodiscard]] denoise::TilePair pair() const;
  /// Seconds that this rank waited for borders of tiles, since the last call.
  double take_exposed_seconds();
  /// See TilePartition.
  void trace(base::Trace* trace);

 private:
  std::unique_ptr<parallel::TilePartition> model_;
  std::unique_ptr<parallel::TilePartition> mean_;
};

}  // namespace ddpm::train
