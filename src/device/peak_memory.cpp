#include "device/peak_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

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

int64_t peak_memory_bytes(c10::Device device) {
  return device.is_cpu() ? peak_resident_bytes() : peak_of_device(device).allocated;
}

}  // namespace ddpm::device
