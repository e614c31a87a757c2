// What a thread is doing, for another thread to see: whether its work moves on, and whether it waits for others.
//
// Code that may take long calls pulse() whenever a part of it is done: a block of a file, an image, a unit of a model.
// Code that waits for other ranks makes a Waiting. Neither knows its thread nor who watches it.
#pragma once

#include <atomic>
#include <cstdint>

namespace ddpm::base {

/// The signs of life of the thread that made it, which also destroys it. The newest of several gets them.
class Pulse {
 public:
  Pulse();
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// How many parts of its work the thread has got done. Any thread may ask.
  [[nodiscard]] int64_t count() const { return count_.load(std::memory_order_relaxed); }
  /// Whether the thread waits for other ranks now. Any thread may ask.
  [[nodiscard]] bool waiting() const { return waiting_; }

 private:
  friend void pulse();
  friend class Waiting;

  std::atomic<int64_t> count_ = 0;
  std::atomic<bool> waiting_ = false;
};

/// The calling thread has got something done. Costs next to nothing, and does nothing without a Pulse.
void pulse();

/// The calling thread waits for other ranks as long as this lives. Does nothing without a Pulse, and inside another
/// Waiting.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  bool outermost_;
};

}  // namespace ddpm::base
