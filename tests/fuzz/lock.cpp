// checkpoint::parse_lock on a run's LOCK: an owner that is accepted is written and read back the same.
#include "base/error.h"
#include "checkpoint/lock_lease.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto owner = ddpm::checkpoint::parse_lock(std::string(ddpm::fuzz::text_of(data, size)));
    ddpm::fuzz::require(owner.pid >= 0 && owner.restart_count >= 0, "counts are counts");
    const std::string text = to_text(owner);
    ddpm::fuzz::require(to_text(ddpm::checkpoint::parse_lock(text + "renewed 1\n")) == text, "reads back the same");
  } catch (const ddpm::base::OutputError&) {
  }
  return 0;
}
