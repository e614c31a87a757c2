// The loss of training, image by image: the caller sums in an order of its own and sorts by timestep.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "diffusion/config.h"
#include "diffusion/noise.h"
#include "diffusion/schedule.h"

namespace ddpm::diffusion {

/// Mean squared error of each image in float32, [N]. Differentiable in `prediction` (any floating dtype, any memory
/// format); `target` has its shape. With `valid`, bool [N, 1, H, W], it is the mean over the valid pixels alone,
/// whatever the values elsewhere are, and 0 of an image that has no valid pixel. Of a tile of each image, `pixels`,
/// int64 [N], counts the (valid) pixels of whole images: the losses of all tiles add up to that of the image.
at::Tensor per_sample_loss(const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& valid = {},
                           const at::Tensor& pixels = {});

/// Mean squared error of each channel of each image, [N, C], with the arguments of per_sample_loss(), which is its mean
/// over the channels but for rounding.
at::Tensor per_channel_loss(const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& valid = {},
                            const at::Tensor& pixels = {});

/// The factor of each image's loss, float32 [N] on the device of `t`: 1 for snr_gamma = 0, and min-SNR-γ otherwise
/// (Hang et al., "Efficient Diffusion Training via Min-SNR Weighting Strategy", 2023, section 3.4): min(SNR, γ) over
/// SNR for epsilon, over 1 for sample, over SNR + 1 for v_prediction.
at::Tensor loss_weight(const NoiseSchedule& schedule, double snr_gamma, const at::Tensor& t);

/// Whether min-SNR-γ gives the last timestep, with which sampling begins, weight 0: where it holds no signal, its SNR
/// is 0, and so is the factor for sample and v_prediction.
bool leaves_out_last_timestep(const DiffusionConfig& config);

}  // namespace ddpm::diffusion
