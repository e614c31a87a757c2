// Whether the work of a thread moves on, for another thread to see.
//
// Code that may take long calls pulse() whenever a part of it is done: a block of a file, an image, a solver's step. It
// knows neither its thread nor who watches it.
#pragma once

#include <atomic>
#include <cstdint>

namespace ddpm::base {

/// Counts what the thread that made it gets done. Destroyed by that thread; of several, the newest counts.
class Pulse {
 public:
  Pulse();
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// From any thread.
  [[nodiscard]] int64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> count_ = 0;
};

/// The calling thread has got something done. Costs next to nothing, and does nothing without a Pulse.
void pulse();

}  // namespace ddpm::base
