// The clock that times are taken with, and the one that people see.
#pragma once

#include <chrono>
#include <functional>

namespace ddpm::base {

/// It never goes backwards; only differences have a meaning.
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

/// Seconds of Clock since some fixed point.
inline double steady_seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

/// Seconds since the Unix epoch. They jump when the time of the machine is set.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Either of them, or a test's own: passed in, so that tests choose the time.
using TimeSource = std::function<double()>;

}  // namespace ddpm::base
