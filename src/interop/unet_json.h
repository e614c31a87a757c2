// The keys of UNet2DModel between nn::UNet2DConfig and JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "nn/config.h"

namespace ddpm::interop {

/// The diffusers release whose files these are; written as `_diffusers_version`.
inline constexpr const char* kDiffusersVersion = "0.35.2";

/// Every key that diffusers writes, sorted as it sorts them.
base::OrderedJson unet_to_json(const nn::UNet2DConfig& unet);

/// Types are those of the configuration section `model`, and nn::validate checks the result. Keys that begin with "_"
/// or tell of averages are ignored (but another `_class_name` is refused), missing keys take UNet2DModel's defaults,
/// unknown keys are refused unless null. Throws base::ConfigError with `origin` (a path), key, value seen and value
/// wanted.
nn::UNet2DConfig unet_from_json(const base::Json& json, const std::string& origin);

/// By what `model` computes something else than `base` with weights that both have: "act_fn = \"gelu\" instead of
/// \"silu\"". Sizes of images, what lies beyond their border, dropout and what adds weights is not part of it.
std::vector<std::string> changed_model_keys(const nn::UNet2DConfig& base, const nn::UNet2DConfig& model);
/// What else `model` takes than `base`: channels, classes and parameters, for which weights are added.
std::vector<std::string> changed_inputs(const nn::UNet2DConfig& base, const nn::UNet2DConfig& model);

}  // namespace ddpm::interop
