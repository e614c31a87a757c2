#include "plan/model_sizes.h"

#include <algorithm>
#include <string_view>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "layout/shard_layout.h"
#include "nn/time_embedding.h"
#include "nn/unet2d.h"
#include "parallel/activation_count.h"

namespace ddpm::plan {
namespace {

/// Multiply-adds of one image count twice.
struct Flops {
  double all = 0.0;
  double attention = 0.0;
};

/// A weight is used once per output pixel, but for those of the embeddings, which are used once per image, and tables,
/// which are only looked up. All convolutions of a unit work at the resolution that it ends with.
Flops forward_flops(const nn::Unit& unit, double pixels) {
  Flops flops;
  for (const nn::Parameter* parameter : unit.parameters()) {
    const std::string_view name = parameter->name;
    const auto& shape = parameter->shape;
    const auto elements = static_cast<double>(parameter->numel());
    const bool attention = name.find(".attentions.") != std::string_view::npos;
    if (shape.size() == 4 || (shape.size() == 2 && attention)) flops.all += 2.0 * elements * pixels;
    const bool table = name == "class_embedding.weight" || name == "time_proj.weight";
    if (shape.size() == 2 && !attention && !table) flops.all += 2.0 * elements;
    if (attention && name.ends_with("to_q.weight")) {
      flops.attention += 4.0 * pixels * pixels * static_cast<double>(shape[0]);  // q kᵀ, and its product with v
    }
  }
  flops.all += flops.attention;
  return flops;
}

/// Runs the units on the meta device and counts as it goes.
class Count {
 public:
  Count(const nn::UNet2D& unet, const data::ImageFormat& image, at::ScalarType dtype) : unet_(unet) {
    const auto options = at::TensorOptions().device(at::kMeta);
    const auto& c = unet.config();
    state_.x = at::empty({1, image.channels, image.height, image.width}, options.dtype(at::kFloat));
    state_.timesteps = at::empty({1}, options.dtype(at::kLong));
    if (c.class_embed_type == nn::ClassEmbedding::identity) {
      state_.class_labels = at::empty({1, nn::time_embedding_dim(c)}, options.dtype(at::kFloat));
    } else if (nn::is_class_conditional(c)) {
      state_.class_labels = at::empty({1}, options.dtype(at::kLong));
    }
    nn::allocate(unet.parameters(), options.dtype(dtype));
  }

  ModelSizes run() {
    const at::NoGradGuard no_grad;
    const nn::Partition whole;
    ModelSizes sizes;
    for (const auto& unit : unet_.units()) {
      state_ = unit->forward(std::move(state_), {{.training = true}, whole});
      const Flops flops = forward_flops(*unit, static_cast<double>(state_.x.size(2) * state_.x.size(3)));
      sizes.forward_flops += flops.all;
      sizes.attention_flops += flops.attention;
      add_parameters(*unit, sizes);
    }
    return sizes;
  }

 private:
  static void add_parameters(const nn::Unit& unit, ModelSizes& sizes) {
    int64_t elements = 0;
    for (const nn::Parameter* parameter : unit.parameters()) {
      if (!parameter->trained) {
        sizes.constants += parameter->numel();
        continue;
      }
      sizes.parameters += parameter->numel();
      sizes.largest_parameter = std::max(sizes.largest_parameter, parameter->numel());
      elements += layout::round_up(parameter->numel(), layout::kFlatAlignment);
    }
    sizes.unit_elements.push_back(elements);
  }

  const nn::UNet2D& unet_;
  nn::State state_;
};

}  // namespace

ModelSizes model_sizes(const nn::UNet2DConfig& model, const data::ImageFormat& image, int64_t micro_size,
                       bool mixed_precision, const std::string& checkpointing) {
  const nn::UNet2D unet(model);
  const at::ScalarType dtype = mixed_precision ? at::kBFloat16 : at::kFloat;
  ModelSizes sizes = Count(unet, image, dtype).run();
  const parallel::ActivationBatch batch{.images = micro_size, .height = image.height, .width = image.width};
  const auto peak = [&](parallel::ActivationCheckpointing kept) {
    return parallel::count_activations(model, dtype, batch, kept).peak();
  };
  sizes.activation_bytes = peak(parallel::parse_activation_checkpointing(checkpointing));
  sizes.all_activation_bytes = peak(parallel::ActivationCheckpointing::none);
  sizes.image_elements = image.elements();
  sizes.image_bytes = static_cast<int64_t>(image.bytes());
  sizes.activation_images = micro_size;
  sizes.checkpointing = checkpointing;
  return sizes;
}

}  // namespace ddpm::plan
