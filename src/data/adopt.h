// `ddpm data adopt`: digests of a file of another program, beside it. From then on a changed byte of the file is an
// error, never another value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/progress_report.h"
#include "comm/communicator.h"
#include "data/adopted_file.h"

namespace ddpm::data {

/// Collective. One rank opens an HDF5 file, NetCDF-4 files among them, in a child process first, and lists its arrays.
/// Then all ranks read the file, each a part, and the sidecar is written; an older one is replaced. The file stays as
/// it is. `progress` is told the bytes that this rank has read, and all that it reads. Throws DatasetError for a file
/// that HDF5 cannot read or that changes meanwhile, OutputError when the sidecar cannot be written.
Adoption adopt(comm::Communicator& comm, const Path& file, base::FileSystem& files,
               const base::ProgressReport& progress);

/// Collective. Compares every byte of an adopted file with its digests, and returns what is wrong: a line for each
/// chunk or block, the first ones only where there are many; the last line then counts the others. `progress` is as for
/// adopt().
std::vector<std::string> verify_adopted(comm::Communicator& comm, const Path& file, const AdoptedFile& adopted,
                                        const base::ProgressReport& progress);

}  // namespace ddpm::data
