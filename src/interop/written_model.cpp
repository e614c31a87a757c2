#include "interop/written_model.h"

#include "nn/unet2d.h"

namespace ddpm::interop {

std::vector<NamedTensor> weights_of(const nn::UNet2D& unet) {
  std::vector<NamedTensor> weights;
  for (const nn::Parameter* parameter : unet.parameters()) weights.emplace_back(parameter->name, parameter->value);
  return weights;
}

}  // namespace ddpm::interop
