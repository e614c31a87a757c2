// What the folder of a model, or of adapters, is made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "base/json.h"
#include "interop/model_card.h"
#include "interop/written_scheduler.h"

namespace ddpm::nn {
class UNet2D;
struct UNet2DConfig;
}  // namespace ddpm::nn

namespace ddpm::interop {

/// A weight under diffusers' name ("conv_in.weight"), in diffusers' shape and axis order.
using NamedTensor = std::pair<std::string, at::Tensor>;

/// The model's own weights, for WrittenModel::weights.
std::vector<NamedTensor> weights_of(const nn::UNet2D& unet);

/// Where the regression lies that a model was trained with.
inline constexpr const char* kMeanFolder = "mean_model";

/// What a folder is made of.
struct WrittenModel {
  const nn::UNet2DConfig& unet;
  WrittenScheduler scheduler;
  std::span<const NamedTensor> weights;  ///< stored in `dtype`, whatever they are
  const base::Json& normalization;       ///< written as it is
  const ModelCard& card;
  const WrittenModel* mean = nullptr;  ///< a regression whose answers are added to samples, in the folder mean_model/
  /// float32, bfloat16 or float16, to which weights are rounded as PyTorch does, to the nearest and if two are as near
  /// to the even one; random frequencies stay float32. The file has the same name in all of them, as that of
  /// save_pretrained without a `variant` has.
  at::ScalarType dtype = at::kFloat;
};

/// Adapters, and the card that lies beside them.
struct WrittenAdapter {
  const nn::UNet2D& unet;                ///< its layers have adapters
  std::span<const NamedTensor> weights;  ///< values of the adapters, under the names of nn::Adapter's parameters
  std::string base;                      ///< where the model lies that they belong to
  diffusion::Formulation formulation;    ///< how the adapters were trained
  const base::Json& normalization;       ///< shown in the card
  const ModelCard& card;
  at::ScalarType dtype = at::kFloat;  ///< type in which they are stored
};

}  // namespace ddpm::interop
