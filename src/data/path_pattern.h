// Files by a pattern of their names.
#pragma once

#include <vector>

#include "base/file_system.h"

namespace ddpm::data {

/// Whether it has one of the characters * ? [.
bool is_pattern(const base::Path& path);

/// The path itself, if something is there or it is not a pattern; otherwise what matches it as a shell would have it,
/// in bytewise order, but for FILE.ddpm beside FILE (data/adopted_file.h). Throws DatasetError where nothing does, or a
/// folder cannot be listed.
std::vector<base::Path> matching_paths(const base::Path& pattern);

}  // namespace ddpm::data
