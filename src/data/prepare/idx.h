// IDX files, the format of MNIST (http://yann.lecun.com/exdb/mnist), as they are or packed with gzip.
//
// Two zero bytes, the type of the elements, the number of axes; the size of each axis as a big-endian uint32; the
// elements, last axis fastest. Only bytes (type 0x08) are taken: images [n, height, width] or [n, height, width, c]
// with c = 1 or 3, and labels [n].
#pragma once

#include <optional>

#include "base/file_system.h"
#include "data/prepare/decode.h"
#include "data/prepare/records.h"

namespace ddpm::data::prepare {

/// Whether a file begins as an IDX file with elements of a type that the format knows.
bool looks_like_idx(PackedFile& file);

/// The file that holds the labels of `images`: beside it, its name with "labels" for "images" and "idx1" for "idx3" or
/// "idx4", with or without ".gz". Throws DatasetError where there is none.
base::Path idx_labels_of(const base::Path& images);

/// Looks through both files. Throws DatasetError unless types, axes, sizes and counts fit, and each file has exactly
/// the bytes of its header's shape.
RecordFile look_at_idx(const base::Path& images, const std::optional<base::Path>& labels, const DecodeLimits& limits);

}  // namespace ddpm::data::prepare
