#include "plan/model_sizes.h"

#include <algorithm>

#include "layout/shard_layout.h"
#include "nn/unet2d.h"
#include "parallel/activation_count.h"

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

}  // namespace

ModelSizes model_sizes(const nn::UNet2DConfig& model, const data::ImageFormat& image, int64_t micro_size,
                       bool mixed_precision, parallel::ActivationCheckpointing checkpointing) {
  const nn::UNet2D unet(model);
  const at::ScalarType dtype = mixed_precision ? at::kBFloat16 : at::kFloat;
  ModelSizes sizes;
  for (const auto& unit : unet.units()) add_parameters(*unit, sizes);
  const nn::Operations operations =
      unet.operations({.height = image.height, .width = image.width, .depth = image.depth});
  sizes.forward_flops = operations.all;
  sizes.attention_flops = operations.attention;
  sizes.backward_flops = operations.backward;
  const parallel::ActivationBatch batch{.images = micro_size, .height = image.rows(), .width = image.width};
  const auto peak = [&](parallel::ActivationCheckpointing kept) {
    return parallel::count_activations(model, dtype, batch, kept).peak();
  };
  sizes.activation_bytes = peak(checkpointing);
  sizes.all_activation_bytes = peak(parallel::ActivationCheckpointing::none);
  sizes.image_elements = image.pixels() * std::max(image.channels, model.in_channels);
  sizes.image_bytes = static_cast<int64_t>(image.bytes());
  sizes.activation_images = micro_size;
  sizes.checkpointing = checkpointing;
  return sizes;
}

}  // namespace ddpm::plan
