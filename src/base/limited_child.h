// A trial in a child process: for work that a file may make crash, hang or fill the memory.
//
// Forks and networks with remote memory access: such an adapter writes into pages of this process that are pinned.
// After a fork parent and child share all pages until one of the two writes to them. On kernels that do not copy pinned
// pages at the fork (Linux before 5.12, unless a distribution has added it), the parent's next write gives the parent
// another page, and what the adapter delivers into the old one is lost. libibverbs then has to keep pinned pages from
// children (MADV_DONTFORK), and has to know before the first page is pinned: this is what RDMAV_FORK_SAFE in the
// environment is for (ibv_fork_init(3)), which comm::MpiSession sets before MPI starts. It serves everything that goes
// through libibverbs: UCX, libfabric's providers for verbs and EFA (which otherwise ends a process that forks), NCCL.
// Where the kernel copies pinned pages, libibverbs does nothing. CXI_FORK_SAFE and CXI_FORK_SAFE_HP ask the same of
// libfabric's provider for HPE Slingshot (fi_cxi(7)). UCX_IB_FORK_INIT is not set: UCX asks for the same by
// itself where it can, and "yes" would make UCX give up the network where libibverbs refuses.
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
/// silent on stdout and stderr, has no socket, pipe or device of this process open, takes every signal as the system
/// does by default, and ends without exit handlers, also when this process dies.
///
/// Returns "" when `work` returned. Throws an Error with the code and text of the one that `work` threw. Otherwise
/// returns what happened: "was ended by signal 11 (Segmentation fault)". It is the end of a sentence about the trial.
///
/// Only the calling thread exists in the child. `work` must make no call to MPI, LibTorch or CUDA, and must not wait
/// for a lock that another thread may hold.
std::string try_in_child(const ChildLimits& limits, const std::function<void()>& work);

/// Allows this process `more_bytes` of address space beyond what it has now, up to its hard limit. It serves `work`
/// whose first part finds out how much the second one needs.
void limit_memory(uint64_t more_bytes);

}  // namespace ddpm::base
