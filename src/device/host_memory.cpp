#include "device/host_memory.h"

#include <cstdlib>

#include <malloc.h>

namespace ddpm::device {

void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_TRIM_THRESHOLD, -1);        // never
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
#endif
  setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0);  // LibTorch's variable, c10/core/impl/alloc_cpu.cpp
}

void return_large_blocks() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
#endif
}

}  // namespace ddpm::device
