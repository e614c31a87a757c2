// Tells whether a failed call on a file says anything of the file: that it is not what was asked for, or nothing at
// all.
#pragma once

#include <filesystem>
#include <type_traits>

#include "base/error.h"

namespace ddpm::base {

/// A file could not be used just now: no permission, too many open files, a device or a file server that fails. It may
/// be whole. Every other OutputError of a read says that the file is not there, is not a regular file, or does not hold
/// what it should.
struct AccessError : OutputError {
  using OutputError::OutputError;
};

/// An AccessError that a reader of a dataset meets.
struct DatasetAccessError : DatasetError {
  using DatasetError::DatasetError;
};

/// A file has more bytes than its reader accepts.
struct TooLargeError : OutputError {
  using OutputError::OutputError;
};

/// Runs `work`, which reads files that are neither checkpoints nor outputs: an OutputError of it is thrown as an E with
/// the same text, and an AccessError of a dataset's reader as a DatasetAccessError.
template <typename E, typename Work>
auto read_as(const Work& work) {
  using Access = std::conditional_t<std::is_same_v<E, DatasetError>, DatasetAccessError, E>;
  try {
    return work();
  } catch (const AccessError& error) {
    throw Access("{}", error.what());
  } catch (const OutputError& error) {
    throw E("{}", error.what());
  }
}

/// Whether an errno says nothing of the file itself, neither that it is absent nor that it is of another kind.
bool is_access_failure(int code);

/// Throws "PATH: cannot OPERATION: reason" for an errno: an AccessError, or an OutputError when there is no such file
/// or something else in its place.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, const char* operation, int code);

}  // namespace ddpm::base
