// Makes calls of the C library fail in this program, as a machine that stumbles would.
#pragma once

#include <string>

namespace ddpm::test {

/// While it lives, the calls of one function fail: open, pread, pwrite, read, stat, fstat or getdents64. One at a time.
/// A pwrite that fails with 0 writes nothing.
class FailingCalls {
 public:
  /// The first `passed` calls succeed, then `times` fail with `code`, then all succeed.
  FailingCalls(std::string function, int code, int times, int passed = 0);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  /// Calls of the function so far.
  [[nodiscard]] int calls() const { return calls_; }

  /// Whether this call of `function` is to fail; errno is set then.
  static bool fails(const char* function);

 private:
  std::string function_;
  int code_;
  int times_;
  int passed_;
  int calls_ = 0;
};

}  // namespace ddpm::test
