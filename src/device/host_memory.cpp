#include "device/host_memory.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

namespace ddpm::device {
namespace {

constexpr const char* kHugePages = "THP_MEM_ALLOC_ENABLE";  // LibTorch's variable, c10/core/impl/alloc_cpu.cpp

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Stands right before the data in a block.
struct Header {
  static constexpr std::uintptr_t kMark = 0x6464706D626C6F63;

  void* block;
  std::uintptr_t marked;  ///< the block's address and the mark: before LibTorch's own blocks other numbers stand
};

/// oneDNN's tensors are freed by the allocator of now, also those that an earlier one gave.
void release(void* data) {
  if (data == nullptr) return;
  Header header{};
  std::memcpy(&header, static_cast<char*>(data) - sizeof(header), sizeof(header));
  if (header.marked == (reinterpret_cast<std::uintptr_t>(header.block) ^ Header::kMark)) {
    std::free(header.block);
  } else {
    c10::free_cpu(data);
  }
}

class BlockAllocator final : public c10::Allocator {
 public:
  explicit BlockAllocator(bool in_huge_pages)
      : in_huge_pages_(in_huge_pages), page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = bytes == 0 ? nullptr : allocate_aligned(bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

 private:
  [[nodiscard]] void* allocate_aligned(std::size_t bytes) const {
    const bool huge = in_huge_pages_ && bytes >= kHugePage;
    const std::size_t alignment = huge ? page_ : kAlignment;  // madvise() takes whole pages
    void* const block = bytes <= PTRDIFF_MAX / 2 ? std::malloc(bytes + alignment + sizeof(Header)) : nullptr;
    TORCH_CHECK(block != nullptr, "can't allocate memory: you tried to allocate ", bytes, " bytes.");
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    const std::size_t past = (address + sizeof(Header)) % alignment;
    char* const data = static_cast<char*>(block) + sizeof(Header) + (past == 0 ? 0 : alignment - past);
    const Header header{.block = block, .marked = address ^ Header::kMark};
    std::memcpy(data - sizeof(header), &header, sizeof(header));
    if (huge) madvise(data, bytes, MADV_HUGEPAGE);
    return data;
  }

  bool in_huge_pages_;
  std::size_t page_;
};

bool wants_huge_pages() {
  const char* const asked = std::getenv(kHugePages);
  return asked != nullptr && std::string_view(asked) == "1";
}

/// Whether LibTorch asks a posix_memalign() that finds no freed block of the size that it is asked for. For aarch64 it
/// brings an allocator of its own, and so do sanitizers.
bool wastes_aligned_blocks() {
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
  constexpr int kMended = 38;  // 2.38
  const std::string_view version = gnu_get_libc_version();
  return version.starts_with("2.") && std::atoi(version.data() + 2) < kMended;
#else
  return false;
#endif
}

void align_blocks_of_malloc() {
  if (!wastes_aligned_blocks() || c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator()) return;
  c10::SetCPUAllocator(new BlockAllocator(wants_huge_pages()));  // never destroyed: tensors are freed at exit
}

}  // namespace

void set_up_host_memory(FreedMemory freed) {
#if defined(__GLIBC__)
  if (freed == FreedMemory::kept) {
    mallopt(M_TRIM_THRESHOLD, -1);        // never
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
  } else {
    mallopt(M_MMAP_THRESHOLD, 8 << 20);
  }
#endif
  if (freed == FreedMemory::kept) setenv(kHugePages, "1", /*overwrite=*/0);
  align_blocks_of_malloc();
}

}  // namespace ddpm::device
