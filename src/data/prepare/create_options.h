// What `ddpm data create` is asked to make.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "data/dataset_options.h"
#include "data/growing_folder.h"
#include "data/prepare/bad_limit.h"
#include "data/prepare/find_source.h"
#include "data/prepare/fit.h"

namespace ddpm::data::prepare {

/// Pixels of a side of the images that are made of pictures.
inline constexpr int kMostPictureSide = 4096;

/// An option that names an array, and the name, which lies in ArrayOptions.
struct NamedArray {
  const char* option;
  std::string_view name;
};

/// What is said of arrays: which one has which role, and what their variables are. "" leaves each to the source.
struct ArrayOptions {
  // The name of an array in an HDF5 or .npz file; beside a .npy file the path of another one.
  std::string images = {};
  std::string labels = {};
  std::string condition = {};
  std::string static_values = {};
  std::string parameters = {};
  std::string mask = {};
  /// How the images of foreign HDF5 and NetCDF-4 files are composed. The names above then are not used.
  std::optional<DatasetOptions> composed = {};
  std::string names = {};  ///< names of variables: "t2m,u10; condition: sst": images first, other fields by their names
  std::string units = {};  ///< units of the variables, written in the same way
  std::string transforms = {};  ///< see data/fit_transforms.h

  /// The options that name an array; "": not given.
  [[nodiscard]] std::array<NamedArray, 6> named() const {
    return {{{"--images", images},
             {"--labels", labels},
             {"--condition", condition},
             {"--static", static_values},
             {"--parameters", parameters},
             {"--mask", mask}}};
  }

  friend bool operator==(const ArrayOptions&, const ArrayOptions&) = default;
};

struct CreateOptions {
  SourceOptions source;
  ArrayOptions arrays;
  base::Path output;
  FitOptions fit;
  int channels = 3;       ///< 1 or 3
  int shards = 8;         ///< fewer when there are fewer images
  int64_t alignment = 0;  ///< images, conditions and masks begin at multiples of so many bytes; 0: the usual one
  BadLimit max_bad;       ///< more unusable pictures than that end the work
  /// Such a share of the images, told by a hash of their names, becomes a set of its own in the output's folder
  /// "validation"; 0: none.
  double validation_percent = 0.0;
  Journal journal = Journal::cleared;  ///< what becomes of the notes on finished shards
};

}  // namespace ddpm::data::prepare
