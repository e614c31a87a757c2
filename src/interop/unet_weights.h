// The weights of a model folder in diffusers' layout, or of a folder of adapters, read one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "checkpoint/safetensors.h"

namespace ddpm::interop {

/// The folder with config.json: `path`, its unet/, or the one that the file `path` lies in; "" when there is none.
base::Path unet_folder(const base::Path& path);

/// Names and shapes that a model expects.
using ExpectedShapes = std::map<std::string, std::vector<int64_t>>;

/// Where a weight lies.
struct WeightPlace {
  std::size_t file = 0;
  const checkpoint::SafetensorsEntry* entry = nullptr;
};
using WeightEntries = std::map<std::string, WeightPlace>;

/// The weights in a folder's diffusion_pytorch_model.safetensors, or in the files that its .index.json lists, read one
/// at a time. Attention weights under the names of diffusers before 0.17 (query, key, value, proj_attn) have today's.
class UNetWeights {
 public:
  /// Opens the files and reads their headers. Throws base::OutputError (exit code 4) that lists missing and unexpected
  /// names and wrong shapes.
  UNetWeights(const base::Path& folder, const ExpectedShapes& expected);
  /// Opens the adapters in a folder that PEFT wrote, its adapter_model.safetensors, by nn::Adapter's names. Throws as
  /// the constructor does.
  static UNetWeights of_adapters(const base::Path& folder, const ExpectedShapes& expected);

  /// The type of a weight in the file, a floating one. `name` is one of those expected, here and below.
  [[nodiscard]] at::ScalarType dtype_of(const std::string& name) const;
  /// The weight as it is in the file, on the CPU. Throws base::OutputError for one that is not finite.
  [[nodiscard]] at::Tensor read(const std::string& name) const;

 private:
  UNetWeights() = default;

  std::vector<checkpoint::SafetensorsFile> files_;
  WeightEntries entries_;  // by today's names; their entries lie in files_
};

}  // namespace ddpm::interop
