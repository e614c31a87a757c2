// What golden data says of a model's gradients.
#pragma once

#include "nn/golden_case.h"

namespace ddpm::nn::test {

/// Expects that the gradients of the trained parameters are those of diffusers' loss, or the parts of them that `unet`
/// holds.
void expect_gradients(const UNet2D& unet, const GoldenCase& golden);

}  // namespace ddpm::nn::test
