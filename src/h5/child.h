// Work on HDF5 files in a process of its own. Defined in h5/library.cpp, beside the lock that it holds.
#pragma once

#include <functional>
#include <string>

#include "base/limited_child.h"

namespace ddpm::h5 {

/// base::try_in_child for work that reads HDF5 files: HDF5 itself does not survive every file. No other thread of this
/// process is inside HDF5 meanwhile. `work` opens files with File::open, never in parallel.
std::string try_in_child(const base::ChildLimits& limits, const std::function<void()>& work);

}  // namespace ddpm::h5
