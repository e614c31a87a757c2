#include "base/pulse.h"

namespace ddpm::base {
namespace {

thread_local Pulse* pulse_of_thread = nullptr;

}  // namespace

Pulse::Pulse() { pulse_of_thread = this; }

Pulse::~Pulse() {
  if (pulse_of_thread == this) pulse_of_thread = nullptr;
}

void pulse() {
  if (pulse_of_thread != nullptr) pulse_of_thread->count_.fetch_add(1, std::memory_order_relaxed);
}

Waiting::Waiting() : outermost_(pulse_of_thread != nullptr && !pulse_of_thread->waiting_.exchange(true)) {}

Waiting::~Waiting() {
  if (outermost_ && pulse_of_thread != nullptr) pulse_of_thread->waiting_ = false;
}

}  // namespace ddpm::base
