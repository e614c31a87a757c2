#include "device/peak_memory.h"

#include <vector>

#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

namespace ddpm::device {
namespace {

constexpr int64_t kAllocated = 7 << 20;
constexpr int64_t kReserved = 9 << 20;

/// The allocator of a device that this machine does not have.
class OtherAllocator final : public c10::DeviceAllocator {
 public:
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*pointer*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    stats.allocated_bytes[kAll].peak = kAllocated;
    stats.reserved_bytes[kAll].peak = kReserved;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
  c10::DataPtr allocate(std::size_t /*bytes*/) override { return {}; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}
};

TEST(PeakMemory, IsTheDevicesWhereItComputes) {
  OtherAllocator allocator;
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &allocator, /*priority=*/1);
  const c10::Device device(c10::DeviceType::PrivateUse1, 0);
  EXPECT_EQ(peak_memory_bytes(device), kAllocated);
  EXPECT_EQ(peak_of_device(device).reserved, kReserved);
}

TEST(PeakMemory, IsTheProcessesOnTheHost) {
  constexpr std::size_t kBytes = 64 << 20;
  const int64_t before = peak_memory_bytes(c10::kCPU);
  {
    const std::vector<char> touched(kBytes, 1);
    EXPECT_EQ(touched.back(), 1);
  }
  const MemoryUse use = memory_use(c10::kCPU);
  EXPECT_GE(use.host_peak, use.host);
  EXPECT_GE(peak_memory_bytes(c10::kCPU), before + static_cast<int64_t>(kBytes) / 2);
  EXPECT_EQ(peak_of_device(c10::kCPU).reserved, 0);
}

}  // namespace
}  // namespace ddpm::device
