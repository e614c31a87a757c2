// What a failed call on a file says of the file: that it is not what was asked for, or nothing at all.
#pragma once

#include <filesystem>

#include "base/error.h"

namespace ddpm::base {

/// A file could not be used just now: no permission, too many open files, a device or a file server that fails. It may
/// be whole. Every other OutputError of a read says that the file is not there, is no regular file, or does not hold
/// what it should.
struct AccessError : OutputError {
  using OutputError::OutputError;
};

/// A file has more bytes than whoever reads it takes.
struct TooLargeError : OutputError {
  using OutputError::OutputError;
};

/// Runs `work`, which reads files that are no checkpoint and no output: an OutputError of it is thrown as an E with the
/// same text.
template <typename E, typename Work>
auto read_as(const Work& work) {
  try {
    return work();
  } catch (const OutputError& error) {
    throw E("{}", error.what());
  }
}

/// Throws "PATH: cannot OPERATION: reason" for an errno: an AccessError, or an OutputError when there is no such file
/// or something else in its place.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, const char* operation, int code);

}  // namespace ddpm::base
