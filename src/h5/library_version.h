// Which HDF5 this process runs with.
#pragma once

#include <string>

namespace ddpm::h5 {

/// "1.10.8" and the like.
std::string library_version();

}  // namespace ddpm::h5
