#include "base/failing_calls.h"

#include <cerrno>
#include <cstdarg>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddpm::test {
namespace {

FailingCalls* active = nullptr;

/// Returns the C library's function of that name, which the ones below replace.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));  // NOLINT: a function from a void*, as POSIX has it
}

}  // namespace

FailingCalls::FailingCalls(std::string function, int code, int times, int passed)
    : function_(std::move(function)), code_(code), times_(times), passed_(passed) {
  active = this;
}

FailingCalls::~FailingCalls() { active = nullptr; }

bool FailingCalls::fails(const char* function) {
  if (active == nullptr || active->function_ != function) return false;
  const int number = active->calls_++;
  if (number < active->passed_ || number >= active->passed_ + active->times_) return false;
  errno = active->code_;
  return true;
}

}  // namespace ddpm::test

using ddpm::test::FailingCalls;
using ddpm::test::next;

extern "C" {

int open(const char* path, int flags, ...) {
  if (FailingCalls::fails("open")) return -1;
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static auto* const kReal = next<int(const char*, int, ...)>("open");
  return kReal(path, flags, mode);
}

ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
  if (FailingCalls::fails("pread")) return -1;
  static auto* const kReal = next<ssize_t(int, void*, size_t, off_t)>("pread");
  return kReal(descriptor, bytes, size, offset);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  if (FailingCalls::fails("pwrite")) return errno == 0 ? 0 : -1;
  static auto* const kReal = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return kReal(descriptor, bytes, size, offset);
}

ssize_t read(int descriptor, void* bytes, size_t size) {
  if (FailingCalls::fails("read")) return -1;
  static auto* const kReal = next<ssize_t(int, void*, size_t)>("read");
  return kReal(descriptor, bytes, size);
}

int stat(const char* path, struct stat* status) noexcept {
  if (FailingCalls::fails("stat")) return -1;
  static auto* const kReal = next<int(const char*, struct stat*)>("stat");
  return kReal(path, status);
}

int fstat(int descriptor, struct stat* status) noexcept {
  if (FailingCalls::fails("fstat")) return -1;
  static auto* const kReal = next<int(int, struct stat*)>("fstat");
  return kReal(descriptor, status);
}

ssize_t getdents64(int folder, void* entries, std::size_t bytes) {
  if (FailingCalls::fails("getdents64")) return -1;
  static auto* const kReal = next<ssize_t(int, void*, std::size_t)>("getdents64");
  return kReal(folder, entries, bytes);
}

}  // extern "C"
