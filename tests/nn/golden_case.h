// Golden data of diffusers' UNet2DModel (see golden/make_golden.py) and the model that they are about, rebuilt here.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/json.h"
#include "nn/unet2d.h"
#include "support/relative_distance.h"

namespace ddpm::nn::test {

/// A parameter as diffusers has it.
struct GoldenParameter {
  std::vector<int64_t> shape;
  bool trained = true;
  at::Tensor gradient;
  std::vector<at::Tensor> beyond;  ///< gradients that float32 may give instead, where a unit lies at relu's jump
};

struct GoldenCase {
  base::Json config;  ///< diffusers' config.json
  uint64_t seed = 0;
  at::Tensor output;
  double loss = 0.0;
  bool exact = false;                                 ///< gradients are float32, not float16
  std::map<std::string, GoldenParameter> parameters;  ///< in bytewise order of names
  // The inputs, made from the seed as make_golden.py makes them.
  at::Tensor x, target, timesteps, class_labels;
};

GoldenCase read_golden(const std::filesystem::path& path);
/// The files of $DDPM_GOLDEN, or of tests/nn/golden if that is not set, that end so; sorted.
std::vector<std::filesystem::path> golden_files(const std::string& extension = ".safetensors");

/// A diffusers config.json through the program's own keys.
UNet2DConfig config_from_json(const base::Json& json);

/// Binds every parameter, with dtype and device of `options`, to the case's weights, requiring gradients where
/// diffusers has them.
void bind_weights(std::span<Parameter* const> parameters, const GoldenCase& golden, const at::TensorOptions& options);

using ddpm::test::relative_distance;

}  // namespace ddpm::nn::test
