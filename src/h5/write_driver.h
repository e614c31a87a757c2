// Inside src/h5 only: how HDF5 writes files.
#pragma once

#include <memory>
#include <string>

#include "base/quiet_file.h"
#include "h5/handle.h"

namespace ddpm::h5 {

/// Has a file access list write into `file`, which H5Fcreate then does with whatever name it is given. HDF5 cannot
/// close a file that it cannot write out: its identifier dangles, and the process crashes when the library ends, in
/// MPI_Finalize. So HDF5 never hears of a write that failed: ask the file after each call. The bytes are those that
/// HDF5's own driver of plain files would write. Only H5Fcreate may use the list, while `file` is where it is now.
void write_into(const Handle& access_list, const std::shared_ptr<base::QuietFile>& file);

/// Throws DatasetError "SUBJECT: cannot write: reason" if a write to `file` has failed so far.
void expect_written(const base::QuietFile& file, const std::string& subject);

}  // namespace ddpm::h5
