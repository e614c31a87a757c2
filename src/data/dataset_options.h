// Which arrays of a bare .h5 file are a dataset.
#pragma once

#include <string>

namespace ddpm::data {

struct DatasetOptions {
  std::string images = "/images";  ///< name of the array in a bare .h5 file
  std::string labels = "/labels";  ///< "": read no labels
};

}  // namespace ddpm::data
