// Telling a process from a later one with the same id.
#pragma once

#include <cstdint>
#include <string>

namespace ddpm::checkpoint {

/// "BOOT/NAMESPACE/TICK" of a process: this kernel's boot id, the namespace of process ids in which this process lives,
/// and when that process started; "" when there is no such process, or only its corpse.
/// Throws base::AccessError when the kernel's files cannot be read just now.
std::string process_start_of(int64_t pid);

/// Whether the process that was `pid` when process_start_of() said `start` has ended. False also when that cannot be
/// told from here: of another boot, kernel or container, or hidden.
bool has_surely_ended(int64_t pid, const std::string& start);

}  // namespace ddpm::checkpoint
