// The CPUs on which the kernel lets a thread run.
#pragma once

#include <span>
#include <vector>

namespace ddpm::device {

/// Returns the CPUs that the calling thread may use, ascending; empty where the kernel does not say.
std::vector<int> affinity_cpus();
/// Lets the calling thread, and those that it starts from now on, run on `cpus` only. Returns false, and changes
/// nothing, where the kernel refuses.
bool set_affinity(std::span<const int> cpus);

}  // namespace ddpm::device
