#include "base/file_retry.h"

#include <thread>

namespace ddpm::base {
namespace {

bool may_pass(int code) {
  switch (code) {
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ESTALE:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Retries::again(int code) {
  constexpr int kGrowth = 3;
  if (code == EINTR) return true;
  if (left_ == 0 || !may_pass(code)) return false;
  --left_;
  std::this_thread::sleep_for(pause_);
  pause_ *= kGrowth;
  return true;
}

}  // namespace ddpm::base
