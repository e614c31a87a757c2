// Where samples go: a picture grid, an array, a dataset, or a folder of pictures. Used on one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "denoise/image_record.h"
#include "denoise/sample_dataset.h"

namespace ddpm::cli {

class SampleOutput {
 public:
  virtual ~SampleOutput() = default;
  /// Images [first, first + n) in order: float32 [n, C, H, W], contiguous, in the model's range.
  virtual void append(int64_t first, const at::Tensor& images) = 0;
  /// Called after all images were appended: the complete result appears under its name.
  virtual void finish() = 0;
};

struct OutputOptions {
  bool denormalize = false;
  std::vector<denoise::NumberColumn> numbers = {};  ///< what .h5 holds of each sample besides its image
  int64_t columns = 0;                              ///< images in a row of a grid; 0: about as many as there are rows
};

/// Whether `path` ends as one of the files that make_sample_output() makes.
bool names_file(const base::Path& path);

/// Makes the output that the ending of `path` names (.png, .npy, .h5); a path without an ending is a new or an empty
/// folder. `shape` is [count, C, H, W], of volumes [count, C, D, H, W]. With `denormalize`, .npy and .h5 hold stored
/// values instead of the model's range: x → (x - offset) / scale, and for uint8 rounded and clamped (.h5 then stores
/// uint8). Throws ConfigError for another ending and OutputError for a path that exists as something else, or for a
/// number of channels that pictures cannot have. Until its destruction it is the only one that writes there
/// (base::SoleWriter: another one is an OutputError), and what dead ones have left there is removed.
std::unique_ptr<SampleOutput> make_sample_output(base::FileSystem& files, const base::Path& path,
                                                 const std::vector<int64_t>& shape, const denoise::ImageRecord& image,
                                                 const OutputOptions& options);

}  // namespace ddpm::cli
