#include "comm/deadline.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddpm::comm {

namespace {

/// Decades: nanoseconds of some centuries are more than the clock counts.
constexpr double kLongestSeconds = 1e9;

}  // namespace

Deadline::Deadline(double seconds, std::function<void()> expired)
    : thread_(
          [this, limit = std::chrono::duration<double>(std::min(seconds, kLongestSeconds)), call = std::move(expired)] {
            std::unique_lock lock(mutex_);
            if (!changed_.wait_for(lock, limit, [this] { return met_; })) call();
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
