// Which arrays of a bare .h5 file, or variables of a foreign one, are a dataset, and how it is read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/field.h"
#include "data/key_names.h"

namespace ddpm::data {

/// What becomes of images with values that are missing in a foreign file.
enum class Missing : uint8_t {
  refuse,  ///< such an image cannot be used
  mask,    ///< a mask of each image leaves those pixels out
};
constexpr auto names_of(Missing /*type*/) { return std::to_array<std::string_view>({"refuse", "mask"}); }

/// What becomes of a mask that is named.
enum class MaskUse : uint8_t {
  required,  ///< each file must have it
  optional,  ///< it is left where a file lacks it
  lasting,   ///< as optional, and a foreign file's is left where it changes along the sample axes
};

struct DatasetOptions {
  std::string images = kImagesPath;  ///< name of the array in a bare .h5 file
  std::string labels = kLabelsPath;  ///< "": read no labels
  // Names in a bare file, "" where it has none; dataset.json lists those of a folder.
  std::string condition = {};
  std::string static_values = {};
  std::string parameters = {};
  std::string mask = {};
  // A foreign file, such as NetCDF-4 or The Well's: its variables are composed to images, and `images` is not read. The
  // four names above then are lists of variables, separated by commas (data/variable_request.h), and `labels` names one
  // where it is not the name above.
  std::vector<std::string> variables = {};    ///< variables of the image, channel by channel; empty: a bare file
  std::vector<std::string> axes = {};         ///< names of the image's axes, height before width; empty: the last two
  std::vector<std::string> sample_axes = {};  ///< axes along which images follow each other; empty: the first one
  int64_t lead = 0;  ///< places along the last sample axis from the condition, which has the image's variables too
  Missing missing = Missing::refuse;
  MaskUse mask_use = MaskUse::required;
  /// Variables that stand for the images where a foreign file lacks some of `variables`; `missing` then masks nothing.
  std::vector<std::string> stand_ins = {};
  int threads = 1;              ///< threads with which this rank unpacks chunks
  int64_t chunk_cache_mib = 0;  ///< MiB that each host keeps for unpacked chunks; 0: each rank keeps a few

  /// The shape of an image, where a bare file may lack them: float32 zeros stand for images of which it has only what
  /// is given with them. Empty: images are wanted.
  std::vector<int64_t> absent_images = {};
  /// Arrays that Dataset::integers() is asked for: the child process that tries a bare file reads of them, too.
  std::vector<std::string> beside = {};
  KeyNames said_by = KeyNames::configuration;  ///< what messages call all this

  friend bool operator==(const DatasetOptions&, const DatasetOptions&) = default;
  /// "data.lead" or "--lead".
  [[nodiscard]] std::string key(std::string_view name) const { return key_text(said_by, name); }
  /// Whether `labels` names a variable of a foreign file. Its default name does not.
  [[nodiscard]] bool names_label_variable() const {
    return !variables.empty() && !labels.empty() && labels != DatasetOptions{}.labels;
  }
};

}  // namespace ddpm::data
