// Inside src/h5 only: the library's lock, its error stack, and the checks around each call.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include <hdf5.h>

#include "base/error.h"
#include "base/file_retry.h"
#include "base/pulse.h"
#include "h5/handle.h"

static_assert(sizeof(hid_t) == sizeof(int64_t), "Handle stores an HDF5 identifier as int64_t");
#if !H5_VERSION_GE(1, 10, 7)
#error "HDF5 1.10.7 or newer is wanted (H5Pset_file_locking)"
#endif

namespace ddpm::h5 {

/// A lock that is held while in HDF5. HDF5's state belongs to the process, and so must the mutex. Recursive, since
/// handles are released on the way out of functions that hold it.
class LibraryLock {
 public:
  LibraryLock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// What HDF5's error stack says of the last failure.
struct Failure {
  std::string reason;    ///< the deepest entry, on one line: what failed first
  int system_error = 0;  ///< the errno that the driver of plain files names in it; 0 when there is none
  bool by_mpi = false;   ///< a call of MPI-IO failed, which does not say why
};

/// Reads the error stack, and empties it.
Failure last_failure();

/// Throws DatasetError "SUBJECT: cannot ACTION: HDF5's reason"; a DatasetAccessError when the machine failed, which
/// says nothing of the file.
[[noreturn]] void fail(const Failure& failure, std::string_view subject, std::string_view action);

/// Throws when `status` is negative and returns it otherwise, as a part of the thread's work that is done
/// (base/pulse.h). It takes identifiers, statuses and truth values alike.
template <typename T>
T checked(T status, std::string_view subject, std::string_view action) {
  if (status < 0) fail(last_failure(), subject, action);
  base::pulse();
  return status;
}

/// Makes a call that reads and needs no other rank, as checked() does; a failure of the system that may pass is retried
/// (base/file_retry.h).
template <typename Call>
auto checked_read(const Call& call, std::string_view subject, std::string_view action) {
  base::Retries retries;
  for (;;) {
    const auto status = call();
    if (status >= 0) return checked(status, subject, action);
    const Failure failure = last_failure();
    if (!retries.again(failure.system_error)) fail(failure, subject, action);
  }
}

inline Handle property_list(hid_t id) { return {id, H5Pclose}; }
inline Handle data_space(hid_t id) { return {id, H5Sclose}; }
inline Handle data_type(hid_t id) { return {id, H5Tclose}; }

/// The type of elements in memory; `other` is refused before (InternalError).
hid_t memory_type(Element element);
/// What a stored type is, whatever its byte order.
Element element_of(hid_t type);

/// Has metadata read by one rank and broadcast, for an access property list of a collective open.
void read_metadata_together(const Handle& access_list);

}  // namespace ddpm::h5
