// Retries file calls whose failure may pass: a signal interrupted the call, other processes hold all descriptors or all
// memory, a file server was restarted or answers late. Such a call is repeated a few times before its failure counts.
#pragma once

#include <cerrno>
#include <chrono>

namespace ddpm::base {

/// Decides on the failures of one call, or of calls that belong together. An interrupted call (EINTR) is always made
/// again, at once. EAGAIN, EMFILE, ENFILE, ENOMEM, ESTALE and ETIMEDOUT are given time: 5 further attempts with growing
/// pauses, about 2.4 s in all. Any other failure is final.
class Retries {
 public:
  /// Whether the call that failed with `code` is to be made again; waits before it says so. Does not change errno when
  /// it returns false.
  bool again(int code);

 private:
  int left_ = 5;
  std::chrono::milliseconds pause_{20};
};

/// Makes a call that returns a negative number and sets errno when it fails, with retries. Returns its last result.
template <typename Call>
auto with_retries(const Call& call) {
  Retries retries;
  for (;;) {
    const auto result = call();
    if (result >= 0 || !retries.again(errno)) return result;
  }
}

}  // namespace ddpm::base
