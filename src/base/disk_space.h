// Whether there is room for what is going to be written.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_system.h"

namespace ddpm::base {

/// Throws OutputError unless `bytes` more can be written below `path`, which need not exist yet: as far as the file
/// system tells its free space, and as far as quotas go, which is tried by reserving the bytes for a moment in a file
/// that has no name (file systems that support neither are not asked). `what` says in the message what the bytes are
/// for.
void expect_room(const FileSystem& files, const Path& path, uint64_t bytes, const std::string& what);

}  // namespace ddpm::base
