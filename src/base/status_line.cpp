#include "base/status_line.h"

#include <atomic>

namespace ddpm::base {
namespace {

std::atomic<std::FILE*> drawn_on = nullptr;

}  // namespace

void note_status_line(std::FILE* out) { drawn_on.store(out, std::memory_order_relaxed); }

bool take_status_line(std::FILE* out) {
  return drawn_on.compare_exchange_strong(out, nullptr, std::memory_order_relaxed);
}

}  // namespace ddpm::base
