// diffusion.mean_model: a regression whose answer is taken off the images, so that a model learns what is left of them,
// and is added to its samples again (Mardani et al., "Residual corrective diffusion modeling for km-scale atmospheric
// downscaling", 2025). It computes in float32 whatever the model's own type is.
#pragma once

#include <memory>

#include "denoise/batch.h"
#include "denoise/loaded_model.h"

namespace ddpm::denoise {

/// The regression's answer, float32 of the shape of `like` [N, C, H, W], to what is given with these images. Records no
/// gradients. Of tiles, here and below, `partition` is made for the regression's unet.
at::Tensor mean_image(const LoadedModel& regression, const at::Tensor& like, const at::Tensor& beside,
                      const nn::Conditions& given, const nn::Partition& partition = nn::whole_image());

/// The batch with x0 less the regression's answer; 0 where the mask is.
ModelBatch without_mean(const LoadedModel& regression, ModelBatch batch,
                        const nn::Partition& partition = nn::whole_image());

/// Throws base::OutputError, which begins with `origin`, unless a model of this formulation is a regression.
void expect_regression(diffusion::Formulation formulation, const std::string& origin);
/// Throws base::OutputError, which begins with `origin`, unless `regression` is one, and takes images like `record` to
/// images of `model`, which learned with `class_dropout`.
void expect_regression(const LoadedModel& regression, const ImageRecord& record, const nn::UNet2DConfig& model,
                       double class_dropout, const std::string& origin);

}  // namespace ddpm::denoise
