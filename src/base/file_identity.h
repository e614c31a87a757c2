// Which file a name stands for. A file that is open stays the same file when its name is removed or given to another.
#pragma once

#include <filesystem>
#include <optional>

#include "base/input_file.h"

namespace ddpm::base {

/// The identity of the file that is called `path` now; none when there is no such file. Throws AccessError when that
/// cannot be told.
std::optional<FileIdentity> identity_of(const std::filesystem::path& path);

/// Whether `path` leads to another file than `known` now, or to none. False when that cannot be told.
bool is_displaced(const std::filesystem::path& path, const FileIdentity& known);

}  // namespace ddpm::base
