// Where tensors on the host lie.
#include "device/host_memory.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace ddpm::device::test {
namespace {

/// Blocks of LibTorch's own allocator, made before there is another one.
struct EarlierBlocks {
  at::Tensor tensor = at::ones({1000});
  void* raw = c10::GetCPUAllocator()->raw_allocate(4000);  // as oneDNN's tensors are

  EarlierBlocks() { std::memset(raw, 1, 4000); }
};

class HostMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    earlier = new EarlierBlocks;
    set_up_host_memory(FreedMemory::kept);
  }

  static EarlierBlocks* earlier;
};

EarlierBlocks* HostMemory::earlier = nullptr;

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

TEST_F(HostMemory, AlignsData) {
  for (const int64_t count : {1, 63, 64, 1000, 1 << 20, (2 << 20) - 1, 2 << 20, 40 << 20}) {
    for (int i = 0; i < 3; ++i) {
      const at::Tensor some = bytes(count);
      const auto address = reinterpret_cast<std::uintptr_t>(some.data_ptr());
      EXPECT_EQ(address % static_cast<std::uintptr_t>(count >= 2 << 20 ? sysconf(_SC_PAGESIZE) : 64), 0) << count;
      std::memset(some.data_ptr(), 7, static_cast<std::size_t>(count));
    }
  }
  EXPECT_EQ(bytes(0).numel(), 0);
}

// With posix_memalign() of glibc 2.36 none is.
TEST_F(HostMemory, GivesAFreedBlockToTheNextRequestOfItsSize) {
  for (const int64_t size : {3 << 20, 16 << 20, 31 << 20}) {
    std::vector<at::Tensor> row;
    row.reserve(5);
    for (int i = 0; i < 5; ++i) row.push_back(bytes(size));  // neighbours keep the freed one apart
    const void* const freed = row[2].data_ptr();
    row[2].reset();
    EXPECT_EQ(bytes(size).data_ptr(), freed) << size;
  }
}

TEST_F(HostMemory, FreesWhatLibTorchsOwnGave) {
  c10::Allocator& now = *c10::GetCPUAllocator();
  EXPECT_EQ(earlier->tensor.sum().item<float>(), 1000.0F);
  earlier->tensor.reset();
  now.raw_deallocate(earlier->raw);
  void* const raw = now.raw_allocate(100);
  std::memset(raw, 1, 100);
  now.raw_deallocate(raw);
}

TEST_F(HostMemory, LeavesTheAllocatorOfAProgramAlone) {
  c10::Allocator* const before = c10::GetCPUAllocator();
  set_up_host_memory(FreedMemory::kept);
  EXPECT_EQ(c10::GetCPUAllocator(), before);
}

TEST_F(HostMemory, SaysWhatWasAskedWhereMemoryRunsOut) {
  try {
    bytes(int64_t{1} << 50);
    FAIL() << "a petabyte was given";
  } catch (const c10::Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("can't allocate memory: you tried to allocate 1125899906842624 bytes."), std::string::npos)
        << what;
  }
}

}  // namespace
}  // namespace ddpm::device::test
