// What a failed call on a file says of the file: that it is not what was asked for, or nothing at all.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"

namespace ddpm::base {

/// A file could not be used just now: no permission, too many open files, a device or a file server that fails. It may
/// be whole. Every other OutputError of a read says that the file is not there, is no regular file, or does not hold
/// what it should.
struct AccessError : OutputError {
  using OutputError::OutputError;
};

/// Throws "PATH: cannot OPERATION: reason" for an errno: an AccessError, or an OutputError when there is no such file
/// or something else in its place.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, const char* operation, int code);

/// Throws OutputError when the open file is a pipe, a device or a folder, AccessError when that cannot be told. Returns
/// its size in bytes.
uint64_t require_regular(int descriptor, const std::filesystem::path& path);

}  // namespace ddpm::base
