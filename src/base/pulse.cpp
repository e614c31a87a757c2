#include "base/pulse.h"

namespace ddpm::base {
namespace {

thread_local std::atomic<int64_t>* count_of_thread = nullptr;

}  // namespace

Pulse::Pulse() { count_of_thread = &count_; }

Pulse::~Pulse() {
  if (count_of_thread == &count_) count_of_thread = nullptr;
}

void pulse() {
  if (count_of_thread != nullptr) count_of_thread->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ddpm::base
