// Tunes what the host's allocator does with memory that one step frees and the next one needs again.
#pragma once

namespace ddpm::device {

/// Speeds up steps that allocate equal sizes again and again: freed memory stays with the process, and large tensors
/// lie in huge pages where the kernel has them (transparent_hugepage = madvise or always). The kernel otherwise takes
/// back and clears a hundred thousand pages in every few steps, a tenth of their time on a UNet of 6 million
/// parameters. Call it before the first tensor is made: LibTorch looks once.
void keep_freed_memory();

/// Keeps memory small in ZeRO stages 2 and 3, where gradients on their way and gathered weights come and go in blocks
/// of tens of megabytes. By default glibc soon keeps freed blocks of up to 32 MiB in its heap, where blocks in use keep
/// them from being returned: up to a fifth of a rank's memory.
void return_large_blocks();

}  // namespace ddpm::device
