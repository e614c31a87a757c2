// Three linear layers of one input, as one matrix product: queries, keys and values of attention. One product of three
// times the width fills a GPU where three small ones leave it idle; their gradients are two products in place of six.
#pragma once

#include <array>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

struct LinearWeights {
  at::Tensor weight;  ///< [out, in]
  at::Tensor bias;    ///< [out]
};

/// x [..., in] -> three times [..., out], each of its own width. The results lie beside each other in memory: their
/// last dimension is contiguous, the others are not.
std::array<at::Tensor, 3> joint_linear(const at::Tensor& x, const std::array<LinearWeights, 3>& layers);

}  // namespace ddpm::nn
