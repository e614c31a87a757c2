#include "denoise/loaded_model.h"

#include <ATen/core/grad_mode.h>

namespace ddpm::denoise {

void set_dtype(LoadedModel& model, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  for (nn::Parameter* parameter : model.unet->parameters()) parameter->value = parameter->value.to(dtype);
  model.dtype = dtype;
}

}  // namespace ddpm::denoise
