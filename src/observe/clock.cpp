#include "observe/clock.h"

#include <chrono>

namespace ddpm::observe {

namespace {

template <typename ClockType>
double seconds_of() {
  return std::chrono::duration<double>(ClockType::now().time_since_epoch()).count();
}

}  // namespace

Clock wall_clock() { return seconds_of<std::chrono::system_clock>; }
Clock steady_clock() { return seconds_of<std::chrono::steady_clock>; }

}  // namespace ddpm::observe
