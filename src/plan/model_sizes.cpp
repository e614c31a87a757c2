#include "plan/model_sizes.h"

#include <algorithm>
#include <optional>

#include "layout/shard_layout.h"
#include "nn/unet2d.h"
#include "parallel/activation_count.h"
#include "parallel/planned_tile.h"

namespace ddpm::plan {
namespace {

void add_parameters(const nn::Unit& unit, ModelSizes& sizes) {
  int64_t elements = 0;
  for (const nn::Parameter* parameter : unit.parameters()) {
    if (parameter->role == base::ParameterRole::pretrained) sizes.pretrained += parameter->numel();
    if (parameter->role == base::ParameterRole::constant) sizes.constants += parameter->numel();
    if (parameter->role != base::ParameterRole::trained) continue;
    sizes.parameters += parameter->numel();
    sizes.largest_parameter = std::max(sizes.largest_parameter, parameter->numel());
    elements += layout::round_up(parameter->numel(), layout::kFlatAlignment);
  }
  sizes.unit_elements.push_back(elements);
}

parallel::ActivationBatch batch_of(const parallel::PlannedTile& tile, int64_t images) {
  const nn::ImageSize size = tile.size();
  return {.images = images, .height = size.rows(), .width = size.width, .partition = &tile};
}

/// Activation checkpointing runs forward twice, but for what it keeps.
void add_tile_traffic(const parallel::PlannedTile& tile, const nn::UNet2DConfig& model, at::ScalarType dtype,
                      int64_t images, ModelSizes& sizes) {
  (void)parallel::count_activations(model, dtype, batch_of(tile, images), parallel::ActivationCheckpointing::none);
  const bool again = sizes.checkpointing == parallel::ActivationCheckpointing::blocks;
  const int64_t forward_passes = again ? 2 : 1;
  sizes.tile_messages = forward_passes * tile.forward().messages + tile.backward().messages;
  sizes.tile_bytes = forward_passes * tile.forward().bytes + tile.backward().bytes;
}

}  // namespace

ModelSizes model_sizes(const nn::UNet2DConfig& model, const data::ImageFormat& image, int64_t micro_size,
                       bool mixed_precision, parallel::ActivationCheckpointing checkpointing,
                       const layout::Tiling& tiling) {
  const nn::UNet2D unet(model);
  const at::ScalarType dtype = mixed_precision ? at::kBFloat16 : at::kFloat;
  ModelSizes sizes;
  sizes.checkpointing = checkpointing;
  for (const auto& unit : unet.units()) add_parameters(*unit, sizes);
  const nn::Operations operations =
      unet.operations({.height = image.height, .width = image.width, .depth = image.depth});
  sizes.forward_flops = operations.all;
  sizes.attention_flops = operations.attention;
  sizes.backward_flops = operations.backward;
  parallel::ActivationBatch batch{.images = micro_size, .height = image.rows(), .width = image.width};
  std::optional<parallel::PlannedTile> largest;
  if (tiling.count() > 1) {
    add_tile_traffic({tiling, unet.image_shape(), tiling.inner()}, model, dtype, micro_size, sizes);
    batch = batch_of(largest.emplace(tiling, unet.image_shape(), 0), micro_size);
  }
  const auto peak = [&](parallel::ActivationCheckpointing kept) {
    return parallel::count_activations(model, dtype, batch, kept).peak();
  };
  sizes.activation_bytes = peak(checkpointing);
  sizes.all_activation_bytes = peak(parallel::ActivationCheckpointing::none);
  sizes.image_elements = batch.height * batch.width * std::max(image.channels, model.in_channels);
  sizes.image_bytes = static_cast<int64_t>(image.bytes());
  sizes.activation_images = micro_size;
  return sizes;
}

}  // namespace ddpm::plan
