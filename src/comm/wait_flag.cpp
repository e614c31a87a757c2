#include "comm/wait_flag.h"

namespace ddpm::comm {
namespace {

// Work knows neither its thread nor who watches it.
thread_local std::atomic<bool>* flag_of_thread = nullptr;

}  // namespace

WaitFlag::WaitFlag() { flag_of_thread = &waiting_; }

WaitFlag::~WaitFlag() {
  if (flag_of_thread == &waiting_) flag_of_thread = nullptr;
}

Waiting::Waiting() : outermost_(flag_of_thread != nullptr && !flag_of_thread->exchange(true)) {}

Waiting::~Waiting() {
  if (outermost_ && flag_of_thread != nullptr) *flag_of_thread = false;
}

}  // namespace ddpm::comm
