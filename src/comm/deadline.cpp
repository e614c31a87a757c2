#include "comm/deadline.h"

#include <chrono>
#include <utility>

namespace ddpm::comm {

Deadline::Deadline(double seconds, std::function<void()> expired)
    : thread_([this, seconds, call = std::move(expired)] {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return met_; })) call();
      }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    met_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace ddpm::comm
