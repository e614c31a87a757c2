// The allocator of tensors on the host.
#pragma once

namespace ddpm::device {

/// Has tensors lie in blocks of malloc() that we align. LibTorch has posix_memalign() do it, which in glibc before 2.38
/// gives no freed block to the next request of its size (sourceware's bug 14581): it looks for one that is larger by
/// the alignment, and cuts it. Blocks of many megabytes, which a step frees and the next one needs, then take up to
/// twice their sum. Blocks lie in huge pages where keep_freed_memory() has asked for them, before this is called.
///
/// Does nothing with a newer or another C library, on other processors than x86-64, where LibTorch brings its own
/// allocator, and in a program that has set one. It is for the whole process; tensors that exist stay valid. LibTorch's
/// profiler does not see such blocks. Where memory runs out, c10::Error says so as it does without.
void align_blocks_of_malloc();

}  // namespace ddpm::device
