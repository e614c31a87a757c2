// What the kernel says of a host: processors, memory, network adapters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace ddpm::doctor {

/// A port of an InfiniBand, RoCE, Omni-Path or Slingshot adapter.
struct FabricPort {
  std::string name;   ///< "mlx5_0/1"; of Slingshot the network interface, "hsn0"
  std::string state;  ///< "ACTIVE", "DOWN" ...
  std::string rate;   ///< "200 Gb/sec (4X HDR)"
};

struct HostFacts {
  std::string kernel;      ///< "6.1.0-18-amd64"
  std::string cpu_model;   ///< "AMD EPYC 7763 64-Core Processor"
  std::string governor;    ///< how CPU 0's frequency is chosen: "performance"; "" where the kernel has none
  std::string huge_pages;  ///< transparent huge pages: "always", "madvise", "never"; "" where the kernel has none
  std::vector<int> cpus;   ///< online, ascending
  std::vector<int> cores;  ///< core of each of `cpus`: equal for the hardware threads of one core
  std::vector<std::vector<int>> numa_nodes;  ///< CPUs of each node
  double load = 0.0;                         ///< runnable processes, mean of the last minute
  double cpu_limit = 0.0;                    ///< CPUs' worth of time that the cgroup allows; 0: all
  std::vector<int> cpuset;                   ///< CPUs that the cgroup allows; empty: all
  int64_t memory_bytes = 0;
  int64_t available_bytes = 0;           ///< without swapping, within the limits of the cgroups
  int64_t memory_limit_bytes = -1;       ///< the tightest of the cgroups; -1: none
  int64_t shared_memory_bytes = 0;       ///< size of /dev/shm; 0 where it is absent
  int64_t shared_memory_free_bytes = 0;  ///< free space in /dev/shm
  std::string gpu_driver;                ///< NVIDIA's: "550.54.15"; "" without one
  std::vector<FabricPort> fabric_ports;
  std::vector<std::string> cxi_devices;  ///< HPE Slingshot's adapters, as libfabric names them: "cxi0"
};

/// Read from the files below `root` ("/" but in tests): /proc, /sys, /dev/shm. Facts that a kernel does not tell keep
/// their defaults. The load is the one before this program if this is called early.
HostFacts read_host_facts(const base::Path& root = "/");

/// The word in brackets of "always [madvise] never"; the whole text without brackets.
std::string chosen_of(std::string_view text);

}  // namespace ddpm::doctor
