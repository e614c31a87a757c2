// A trial in a child process: for work that a file may make crash, hang or fill the memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace ddpm::base {

struct ChildLimits {
  uint64_t memory_bytes = 0;  ///< address space beyond what this process has
  std::chrono::seconds processor_time{0};
  std::chrono::seconds wall_time{0};
};

/// Runs `work` in a fork of this process and waits for its end. The child leaves no core file, writes no files, is
/// silent on stdout and stderr, takes every signal as the system does by default, and ends without exit handlers, also
/// when this process dies.
///
/// Returns "" when `work` returned. Throws an Error with the code and text of the one that `work` threw. Otherwise
/// returns what happened: "was ended by signal 11 (Segmentation fault)". It is the end of a sentence about the trial.
///
/// Only the calling thread exists in the child. `work` must make no call to MPI, LibTorch or CUDA, and must not wait
/// for a lock that another thread may hold.
std::string try_in_child(const ChildLimits& limits, const std::function<void()>& work);

/// Allows this process so much more address space than it has now, up to its hard limit: for `work` that knows after
/// its first part how much the second one needs.
void limit_memory(uint64_t more_bytes);

}  // namespace ddpm::base
