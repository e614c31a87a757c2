// How much memory this process may use: what its host has, less what its control groups keep from it. Slurm and
// container runtimes put jobs into such groups (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace ddpm::base {

struct MachineMemory {
  int64_t total = 0;      ///< bytes of the host; 0 where it is not known
  int64_t available = 0;  ///< bytes to be had without swapping, within the limits of all groups; 0: not known
  int64_t limit = -1;     ///< the tightest limit of a group in bytes; -1: there is none

  /// The most that this process and its neighbours in its groups may have together.
  [[nodiscard]] int64_t most() const { return limit >= 0 && limit < total ? limit : total; }
};

/// Read from /proc/meminfo, /proc/self/cgroup and /sys/fs/cgroup below `root` ("/" but in tests). What a group uses
/// already counts against its limit, except pages of files, which the kernel gives up when memory is wanted.
MachineMemory read_machine_memory(const std::filesystem::path& root = "/");

/// The address space or the data that this process may have at most (`ulimit -v`, `ulimit -d`), in bytes; none where
/// there is no such limit. Memory that is reserved counts before it is used.
std::optional<int64_t> process_memory_limit();

/// Calls look(group, kinds) for each control group of this process and each group around it, innermost first, in all
/// hierarchies. `kinds` is what a hierarchy of version 1 controls, such as "memory" or "cpu,cpuacct"; "" in version 2.
void each_control_group(const std::filesystem::path& root,
                        const std::function<void(const std::filesystem::path& group, const std::string& kinds)>& look);

/// The text of a small file of the kernel's without the whitespace at its end; "" where it cannot be read.
std::string kernel_file(const std::filesystem::path& path);

}  // namespace ddpm::base
