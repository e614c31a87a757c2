// What the host's allocators do with memory that one step frees and the next one needs again.
#pragma once

#include <cstdint>

namespace ddpm::device {

enum class FreedMemory : uint8_t {
  /// Stays with the process, which speeds up steps that allocate equal sizes again and again, and large tensors lie in
  /// huge pages where the kernel has them (transparent_hugepage = madvise or always). The kernel otherwise takes back
  /// and clears a hundred thousand pages in every few steps, a tenth of their time on a UNet of 6 million parameters.
  kept,
  /// Large blocks go back to the system. For ZeRO stages 2 and 3, where gradients on their way and gathered weights
  /// come
  /// and go in blocks of tens of megabytes. By default glibc soon keeps freed blocks of up to 32 MiB in its heap, where
  /// blocks in use keep them from being returned: up to a fifth of a rank's memory.
  returned
};

/// Call it before the first tensor is made: LibTorch looks once. It is for the whole process; tensors that exist stay
/// valid.
///
/// Tensors then lie in blocks of malloc() that we align. LibTorch has posix_memalign() do it, which in glibc
/// before 2.38 gives no freed block to the next request of its size (sourceware's bug 14581): it looks for one that is
/// larger by the alignment, and cuts it. Blocks of many megabytes, which a step frees and the next one needs, then take
/// up to twice their sum. The allocator stays LibTorch's with a newer or another C library, on other processors than
/// x86-64, where LibTorch brings its own, and in a program that has set one. LibTorch's profiler does not see our
/// blocks. Where memory runs out, c10::Error says so as it does without.
void set_up_host_memory(FreedMemory freed);

}  // namespace ddpm::device
