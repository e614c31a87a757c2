#include "denoise/unet_tensors.h"

namespace ddpm::denoise {

std::vector<run::ModelTensor> model_tensors(const nn::UNet2D& unet) {
  std::vector<run::ModelTensor> tensors;
  for (const nn::Parameter* parameter : unet.parameters()) {
    tensors.push_back({parameter->name, parameter->whole_shape(), parameter->role, parameter->value});
  }
  return tensors;
}

interop::ExpectedShapes adapter_shapes(const nn::UNet2D& unet) {
  interop::ExpectedShapes expected;
  for (const nn::Parameter* parameter : unet.parameters()) {
    if (parameter->role == base::ParameterRole::trained) expected[parameter->name] = parameter->whole_shape();
  }
  return expected;
}

interop::ExpectedShapes expected_shapes(const nn::UNet2D& unet) {
  interop::ExpectedShapes expected;
  const bool adapted = unet.config().lora.rank > 0;  // what is trained lies beside the folder's weights
  for (const nn::Parameter* parameter : unet.parameters()) {
    if (adapted && parameter->role == base::ParameterRole::trained) continue;
    expected[parameter->name] = parameter->whole_shape();
  }
  return expected;
}

}  // namespace ddpm::denoise
