// Fields from NumPy's files: one .npy file of images with others beside it, or the arrays of a .npz file.
#pragma once

#include <memory>

#include "base/file_system.h"
#include "data/prepare/create_options.h"
#include "data/prepare/field_source.h"

namespace ddpm::data::prepare {

/// Whether a file is a .npy file, by its first bytes, or a .npz file, by its name. Throws DatasetError when it cannot
/// be read.
bool looks_like_numpy(const base::Path& path);

/// Opens arrays of uint8 (masks also of bool), float32 or, of labels, any integers, in C order with channels last; flat
/// images without an axis of channels have one. `with_labels` says whether those of a .npz file are taken that nobody
/// named, "labels". Throws DatasetError for what is not whole or does not fit.
std::unique_ptr<FieldSource> open_numpy(const base::Path& path, const ArrayOptions& options, bool with_labels);

/// Reads the members of a .npz file that open_numpy() would use, and compares their CRC-32. One rank calls it.
void check_numpy(const base::Path& path, const ArrayOptions& options, bool with_labels);

}  // namespace ddpm::data::prepare
