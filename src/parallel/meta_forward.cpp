#include "parallel/meta_forward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "nn/time_embedding.h"

namespace ddpm::parallel {
namespace {

nn::Conditions conditions(const nn::UNet2DConfig& c, int64_t images, const at::TensorOptions& options) {
  nn::Conditions given;
  if (c.num_parameters) given.parameters = at::zeros({images, *c.num_parameters}, options);
  if (c.class_embed_type == nn::ClassEmbedding::identity) {
    given.class_labels = at::zeros({images, nn::time_embedding_dim(c)}, options);
  } else if (nn::is_class_conditional(c)) {
    given.class_labels = at::zeros({images}, options.dtype(at::kLong));
  }
  return given;
}

}  // namespace

void bind_on_meta(nn::UNet2D& unet, at::ScalarType compute_dtype) {
  nn::allocate(unet.parameters(), at::TensorOptions(compute_dtype).device(at::kMeta));
  for (nn::Parameter* p : unet.parameters()) p->value.set_requires_grad(p->role == base::ParameterRole::trained);
}

at::Tensor forward_on_meta(const nn::UNet2D& unet, const ActivationBatch& batch, nn::UnitExecutor& executor) {
  const nn::UNet2DConfig& c = unet.config();
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(unet.parameters().front()->value.device());
  const bool noise_levels = c.time_embedding_type == nn::TimeEmbedding::fourier;
  const at::Tensor x = at::zeros({batch.images, c.in_channels, batch.height, batch.width},
                                 options.memory_format(at::MemoryFormat::ChannelsLast));
  const at::Tensor timesteps = at::ones({batch.images}, options.dtype(noise_levels ? at::kFloat : at::kLong));
  const at::AutoGradMode with_gradients(true);
  return unet.forward(x, timesteps, conditions(c, batch.images, options), {.training = true}, *batch.partition,
                      executor);
}

}  // namespace ddpm::parallel
