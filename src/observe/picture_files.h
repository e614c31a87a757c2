// The grids of samples of a run: RUN/samples/step-00001000.png.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_system.h"

namespace ddpm::observe {

/// The name of a step's grid.
std::string picture_name(int64_t step);
/// Removes the grids of later steps than `step` from the folder, and what a killed run has left half-written.
void cut_back_pictures(base::FileSystem& files, const base::Path& folder, int64_t step);

}  // namespace ddpm::observe
