// Inside src/h5 only: what HDF5 says about the storage of a chunked array. The library's lock is held.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <hdf5.h>

#include "base/file_system.h"
#include "h5/chunks.h"
#include "h5/handle.h"

namespace ddpm::h5 {

/// The filters of an array, in the order in which they are applied.
std::vector<Filter> filters_of(hid_t dataset, const std::string& label);

/// Whether elements lie in the file as in memory (false), or with their bytes the other way round (true); nothing for
/// another form.
std::optional<bool> turned(hid_t dataset, Element element, const std::string& label);

/// Where one of the chunks of a chunked array lies in the file; nothing where none was written.
std::optional<uint64_t> first_chunk_offset(hid_t dataset, const std::string& label);

/// Where the chunks of an array in the file `path` lie. Nothing for what ChunkReader does not read: other filters,
/// other types than plain numbers, files with a user block, partial chunks stored without filters, and more chunks than
/// can be listed in reasonable time. Throws DatasetError when the list is damaged.
std::optional<ChunkLayout> layout_of_chunks(hid_t dataset, const base::Path& path, const std::vector<uint64_t>& chunk,
                                            const std::vector<int64_t>& shape, Element element,
                                            const std::string& label);

}  // namespace ddpm::h5
