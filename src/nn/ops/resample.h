// Halving and doubling of activations by fixed filters.
//
// box: the mean of 2 x 2 pixels (of volumes 2 x 2 x 2), and each pixel four (eight) times. fir and reflected_fir: the
// filter (1, 3, 3, 1) / 8 in both directions, with zeros around the image (Song et al., "Score-based generative
// modeling through stochastic differential equations", 2021, appendix H; Zhang, "Making convolutional networks
// shift-invariant again", 2019) or the image's own pixels, reflected at its borders (Karras et al., "Alias-free
// generative adversarial networks", 2021).
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "nn/operations.h"
#include "nn/partition.h"

namespace ddpm::nn {

enum class ResamplingFilter : uint8_t { box, fir, reflected_fir };

/// x [N, C, H, W], with even H and W for down -> [N, C, H', W'] in the dtype and memory order of x. Resampling::none
/// returns x.
at::Tensor resample(const at::Tensor& x, Resampling resampling, ResamplingFilter filter, const Partition& partition);

}  // namespace ddpm::nn
