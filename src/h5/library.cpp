#include "h5/library.h"

#include <array>
#include <charconv>
#include <new>

#include <stdlib.h>

#include "base/check.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "h5/child.h"

namespace ddpm::h5 {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// HDF5 reads the variable when it starts, and obeys it rather than the property of a file. Locks fail on some network
/// file systems, and a program that looks into a file it does not own must not be kept out of it.
void do_without_file_locks() {
  static const int kDone = ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", /*overwrite=*/1);
  static_cast<void>(kDone);
}

herr_t take_first(unsigned, const H5E_error2_t* entry, void* out) {
  auto& failure = *static_cast<Failure*>(out);
  if (failure.reason.empty() && entry->desc != nullptr) failure.reason = entry->desc;
  failure.by_mpi = failure.by_mpi || entry->min_num == H5E_MPI || entry->min_num == H5E_MPIERRSTR;
  return 0;
}

/// The errno that HDF5's driver of plain files names in its reason; 0 when there is none.
int system_error_in(std::string_view reason) {
  constexpr std::string_view kKey = "errno = ";
  const std::size_t at = reason.rfind(kKey);  // a file may be named like it
  int code = 0;
  if (at != std::string_view::npos) {
    std::from_chars(reason.data() + at + kKey.size(), reason.data() + reason.size(), code);
  }
  return code;
}

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  do_without_file_locks();
  // Errors are reported by exceptions; HDF5 would print its whole stack. Per call, since a reopened library forgets it.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  // A file that names a filter must not make HDF5 run code: it would search HDF5_PLUGIN_PATH for a library.
  H5PLset_loading_state(0);
}

std::string try_in_child(const base::ChildLimits& limits, const std::function<void()>& work) {
  const LibraryLock lock;
  H5open();  // if the child had to start the library, that would call MPI
  return base::try_in_child(limits, [&] {
    new (&library_mutex()) std::recursive_mutex;  // the inherited mutex may be locked by a thread of the parent
    work();
  });
}

Failure last_failure() {
  Failure failure;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &failure);
  H5Eclear2(H5E_DEFAULT);
  std::string& reason = failure.reason;
  for (char& c : reason) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  while (!reason.empty() && reason.back() == ' ') reason.pop_back();
  if (reason.empty()) reason = "HDF5 gives no reason";
  failure.system_error = system_error_in(reason);
  return failure;
}

void fail(const Failure& failure, std::string_view subject, std::string_view action) {
  if (failure.by_mpi || (failure.system_error != 0 && base::is_access_failure(failure.system_error))) {
    throw base::DatasetAccessError("{}: cannot {}: {}", subject, action, failure.reason);
  }
  throw base::DatasetError("{}: cannot {}: {}", subject, action, failure.reason);
}

Handle::~Handle() {
  if (!open() || close() >= 0) return;
  base::Logger(0, 1).warn("an HDF5 handle could not be released");
}

Handle::Handle(Handle&& other) noexcept : id_(other.release()), closer_(other.closer_) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    Handle old(release(), closer_);
    closer_ = other.closer_;
    id_ = other.release();
  }
  return *this;
}

int64_t Handle::id() const {
  DDPM_CHECK(open(), "an HDF5 handle is used after it was closed");
  return id_;
}

int Handle::close() {
  const LibraryLock lock;
  const int64_t id = release();
  return id < 0 ? 0 : closer_(id);
}

int64_t Handle::release() {
  const int64_t id = id_;
  id_ = -1;
  return id;
}

std::string_view name_of(Element element) {
  static constexpr std::array<std::string_view, 11> kNames = {"uint8", "uint16", "uint32",  "uint64",  "int8", "int16",
                                                              "int32", "int64",  "float32", "float64", "other"};
  return kNames.at(static_cast<std::size_t>(element));
}

std::size_t size_of(Element element) {
  static constexpr std::array<std::size_t, 11> kSizes = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 0};
  return kSizes.at(static_cast<std::size_t>(element));
}

bool is_integer(Element element) { return element <= Element::i64; }

hid_t memory_type(Element element) {
  switch (element) {
    case Element::u8:
      return H5T_NATIVE_UINT8;
    case Element::u16:
      return H5T_NATIVE_UINT16;
    case Element::u32:
      return H5T_NATIVE_UINT32;
    case Element::u64:
      return H5T_NATIVE_UINT64;
    case Element::i8:
      return H5T_NATIVE_INT8;
    case Element::i16:
      return H5T_NATIVE_INT16;
    case Element::i32:
      return H5T_NATIVE_INT32;
    case Element::i64:
      return H5T_NATIVE_INT64;
    case Element::f32:
      return H5T_NATIVE_FLOAT;
    case Element::f64:
      return H5T_NATIVE_DOUBLE;
    case Element::other:
      break;
  }
  throw base::InternalError("an HDF5 type that is not a plain number has no type in memory");
}

Element element_of(hid_t type) {
  if (H5Tget_class(type) == H5T_FLOAT) {
    if (H5Tequal(type, H5T_IEEE_F32LE) > 0 || H5Tequal(type, H5T_IEEE_F32BE) > 0) return Element::f32;
    if (H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F64BE) > 0) return Element::f64;
    return Element::other;
  }
  const std::size_t size = H5Tget_size(type);
  if (H5Tget_class(type) != H5T_INTEGER || H5Tget_precision(type) != 8 * size) return Element::other;
  const bool is_signed = H5Tget_sign(type) != H5T_SGN_NONE;
  switch (size) {
    case 1:
      return is_signed ? Element::i8 : Element::u8;
    case 2:
      return is_signed ? Element::i16 : Element::u16;
    case 4:
      return is_signed ? Element::i32 : Element::u32;
    case 8:
      return is_signed ? Element::i64 : Element::u64;
    default:
      return Element::other;
  }
}

void read_metadata_together(const Handle& access_list) {
  checked(H5Pset_all_coll_metadata_ops(access_list.id(), true), "HDF5", "have metadata read by one rank");
}

}  // namespace ddpm::h5
