#include "train/model_tiles.h"

namespace ddpm::train {

ModelTiles::ModelTiles(const layout::Tiling& tiling, const nn::UNet2D& model, const denoise::LoadedModel* mean,
                       comm::Communicator* tiles, comm::Communicator* channels, parallel::TransferQueue::Mode trades) {
  if (tiles != nullptr || channels != nullptr) {
    model_ = std::make_unique<parallel::TilePartition>(tiling, model.image_shape(), tiles, channels, trades);
  }
  if (tiles != nullptr && mean != nullptr) {
    mean_ = std::make_unique<parallel::TilePartition>(tiling, mean->unet->image_shape(), tiles, nullptr, trades);
  }
}

denoise::TilePair ModelTiles::pair() const {
  denoise::TilePair pair;
  if (model_) pair.model = model_.get();
  if (mean_) pair.mean = mean_.get();
  return pair;
}

double ModelTiles::take_exposed_seconds() {
  double seconds = 0.0;
  for (const auto* tile : {&model_, &mean_}) {
    if (*tile) seconds += (*tile)->take_exposed_seconds();
  }
  return seconds;
}

void ModelTiles::trace(base::Trace* trace) {
  for (const auto* tile : {&model_, &mean_}) {
    if (*tile) (*tile)->trace(trace);
  }
}

}  // namespace ddpm::train
