// Inside src/interop: models that diffusers has no class for, since they take parameters, have periodic axes
// or are of volumes.
//
// Their folder differs from diffusers' where its loaders look first, so that they refuse it: the class in config.json
// and model_index.json is FieldUNet2D, and the weights lie in field_unet.safetensors. field_unet.py beside
// model_index.json computes the model with diffusers' own UNet2DModel.
#pragma once

#include <string_view>

namespace ddpm::interop {

inline constexpr const char* kFieldClass = "FieldUNet2D";
inline constexpr const char* kFieldWeights = "field_unet.safetensors";
inline constexpr const char* kFieldModule = "field_unet.py";

/// The text of field_unet.py, which cmake/embed_texts.cmake compiles into the program.
std::string_view field_module();

}  // namespace ddpm::interop
