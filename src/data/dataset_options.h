// Which arrays of a bare .h5 file are a dataset.
#pragma once

#include <string>

namespace ddpm::data {

struct DatasetOptions {
  std::string images = "/images";  ///< name of the array in a bare .h5 file
  std::string labels = "/labels";  ///< "": read no labels
  // Names in a bare file, "" where it has none; dataset.json lists those of a folder.
  std::string condition = {};
  std::string static_values = {};
  std::string parameters = {};
  std::string mask = {};
};

}  // namespace ddpm::data
