// Inside src/h5 only: where the chunks of an array lie, read from the file itself. HDF5 1.10 goes through all chunks
// before one to find it, which takes as long as the square of their number.
//
// Source: HDF5 File Format Specification 3.0, III.A.1 (version 1 B-trees) and IV.A (object headers, data layout).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/input_file.h"
#include "h5/chunks.h"

namespace ddpm::h5 {

/// Calls `each` with the first element, along each axis, and the place of every chunk. `header` is where the array's
/// object header begins, of a file without a user block and with addresses and lengths of 8 bytes. Returns false where
/// the chunks are not listed by a version 1 B-tree (files of libver="latest") or where it is not what the format says;
/// some chunks may have been given then. Stops after `most` chunks.
bool list_chunks(const base::InputFile& file, uint64_t header, std::size_t axes, uint64_t most,
                 const std::function<void(std::span<const uint64_t> begin, const ChunkPlace& place)>& each);

}  // namespace ddpm::h5
