// Fields of what training reads, too: HDF5 files of other programs, and datasets.
#pragma once

#include <memory>
#include <vector>

#include "base/file_system.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "data/prepare/field_source.h"

namespace ddpm::data::prepare {

/// Whether `path` is an HDF5 file, by its first bytes, or the folder of a dataset. Throws DatasetError when it cannot
/// be read.
bool looks_like_dataset(const base::Path& path);

/// Opens a file or a folder. Of a folder fields, transforms and class names are its own; the fields of a file get the
/// names and paths that those of a folder have. Collective; throws as Dataset::open() does.
std::unique_ptr<FieldSource> open_dataset(comm::Communicator& comm, const base::Path& path,
                                          const DatasetOptions& options);

/// Opens foreign files as one set. Collective, alike.
std::unique_ptr<FieldSource> open_foreign(comm::Communicator& comm, const std::vector<base::Path>& paths,
                                          const DatasetOptions& options);

}  // namespace ddpm::data::prepare
