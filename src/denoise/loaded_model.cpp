#include "denoise/loaded_model.h"

#include <ATen/core/grad_mode.h>

namespace ddpm::denoise {

void prepare_for_sampling(LoadedModel& model, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  for (nn::Parameter* parameter : model.unet->parameters()) parameter->value = parameter->value.to(dtype);
  model.dtype = dtype;
  model.unet->prepare_for_inference();
}

}  // namespace ddpm::denoise
