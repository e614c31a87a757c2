// Which file of a model folder holds which weight: diffusion_pytorch_model.safetensors.index.json, which
// save_pretrained writes for models that are larger than its max_shard_size.
#pragma once

#include <map>
#include <string>

#include "base/json.h"

namespace ddpm::interop {

/// Names of weights and the files that hold them.
using WeightIndex = std::map<std::string, std::string>;

/// Reads "weight_map". A file is a plain name in the folder of the index, which ends in .safetensors. Throws
/// base::OutputError, which begins with `origin`.
WeightIndex parse_weight_index(const base::Json& json, const std::string& origin);

}  // namespace ddpm::interop
