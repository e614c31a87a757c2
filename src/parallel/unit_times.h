// How long each unit of the model takes, forward and backward, alone on this rank: what stages of a pipeline are cut
// by.
//
// Units run one at a time, of random activations with the shapes that a forward pass on the meta device finds, so that
// neither the model nor its activations need to fit.
#pragma once

#include <vector>

#include "nn/unet2d.h"
#include "parallel/meta_forward.h"

namespace ddpm::parallel {

/// Seconds of each unit for one micro-batch of whole images, `batch`: the fastest of `repeats` after one that is not
/// measured.
std::vector<double> unit_seconds(const nn::UNet2DConfig& model, at::ScalarType compute_dtype, at::Device device,
                                 const ActivationBatch& batch, int64_t repeats);

}  // namespace ddpm::parallel
