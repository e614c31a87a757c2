// Ranges of time that NVIDIA's tools, such as Nsight Systems, show above the kernels (NVTX). Where no tool listens, one
// costs two calls of functions that do nothing. Builds without CUDA have none.
#pragma once

#include <string>

namespace ddpm::device {

/// Begins a range of the calling thread, within those that it has begun before.
void begin_range(const char* name);
/// Ends the last of those.
void end_range();

class ScopedRange {
 public:
  explicit ScopedRange(const std::string& name) { begin_range(name.c_str()); }
  ScopedRange(const ScopedRange&) = delete;
  ScopedRange& operator=(const ScopedRange&) = delete;
  ~ScopedRange() { end_range(); }
};

}  // namespace ddpm::device
