// Whether a thread waits for other ranks, for another thread to see.
#pragma once

#include <atomic>

namespace ddpm::comm {

/// Set whenever the thread that made it is in Work::wait(). Destroyed by that thread; of several, the newest is set.
class WaitFlag {
 public:
  WaitFlag();
  ~WaitFlag();
  WaitFlag(const WaitFlag&) = delete;
  WaitFlag& operator=(const WaitFlag&) = delete;

  /// From any thread.
  [[nodiscard]] bool waiting() const { return waiting_; }

 private:
  std::atomic<bool> waiting_ = false;
};

/// The calling thread waits for other ranks as long as this lives; nothing without a WaitFlag.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  bool outermost_;
};

}  // namespace ddpm::comm
