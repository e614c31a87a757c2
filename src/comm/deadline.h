// Something that has to be done in time, where nothing else watches.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ddpm::comm {

/// Calls `expired`, on a thread of its own, unless this object has ended within so many seconds, 10^9 at most. Makes no
/// MPI call.
class Deadline {
 public:
  Deadline(double seconds, std::function<void()> expired);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false;
  std::thread thread_;
};

}  // namespace ddpm::comm
