// What a model folder is made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

#include "base/json.h"
#include "interop/model_card.h"

namespace ddpm::nn {
struct UNet2DConfig;
}
namespace ddpm::diffusion {
struct SchedulerConfig;
enum class Formulation : uint8_t;
}  // namespace ddpm::diffusion

namespace ddpm::interop {

/// A weight under diffusers' name ("conv_in.weight"), in diffusers' shape and axis order.
using NamedTensor = std::pair<std::string, at::Tensor>;

/// Where the regression lies that a model was trained with.
inline constexpr const char* kMeanFolder = "mean_model";

/// What a folder is made of.
struct WrittenModel {
  const nn::UNet2DConfig& unet;
  const diffusion::SchedulerConfig& scheduler;
  std::span<const NamedTensor> weights;  ///< stored as float32, whatever they are
  const base::Json& normalization;       ///< written as it is
  const ModelCard& card;
  const WrittenModel* mean = nullptr;  ///< a regression whose answers are added to samples, in the folder mean_model/
};

}  // namespace ddpm::interop
