#include "device/peak_memory.h"

#include <algorithm>
#include <charconv>
#include <string>

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/machine_memory.h"

namespace ddpm::device {

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

DevicePeak peak_of_device(c10::Device device) {
  if (device.is_cpu()) return {};
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return {.allocated = stats.allocated_bytes[kAll].peak, .reserved = stats.reserved_bytes[kAll].peak};
}

MemoryUse memory_use(c10::Device device) {
  MemoryUse use{.host_peak = peak_resident_bytes()};
  const std::string pages = base::kernel_file("/proc/self/statm");  // all pages, then those that are resident
  const char* resident = pages.data() + std::min(pages.find(' '), pages.size() - 1) + 1;
  std::from_chars(resident, pages.data() + pages.size(), use.host);
  use.host *= sysconf(_SC_PAGESIZE);
  use.host_peak = std::max(use.host_peak, use.host);  // the kernel counts both lazily, each by itself
  if (device.is_cpu()) return use;
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  use.device = stats.allocated_bytes[kAll].current;
  use.device_peak = stats.allocated_bytes[kAll].peak;
  return use;
}

int64_t peak_memory_bytes(c10::Device device) {
  return device.is_cpu() ? peak_resident_bytes() : peak_of_device(device).allocated;
}

}  // namespace ddpm::device
