// The highest amount of host memory that tensors take, as LibTorch's allocator reports it to its profiler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace ddpm::test {

/// Counts from its construction on, what this thread allocates and frees.
class AllocationPeak {
 public:
  AllocationPeak() : guard_(c10::DebugInfoKind::PROFILER_STATE, report_) {}
  [[nodiscard]] int64_t bytes() const { return report_->highest; }

 private:
  struct Report : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* /*address*/, int64_t size, std::size_t /*allocated*/, std::size_t /*reserved*/,
                           c10::Device /*device*/) override {
      current += size;  // negative when freed
      highest = std::max(highest, current);
    }
    [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

    int64_t current = 0;
    int64_t highest = 0;
  };

  std::shared_ptr<Report> report_ = std::make_shared<Report>();
  c10::DebugInfoGuard guard_;
};

}  // namespace ddpm::test
