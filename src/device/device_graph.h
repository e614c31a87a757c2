// Device work that is recorded once and given to the device again and again: a CUDA graph.
#pragma once

#include <functional>

namespace ddpm::device {

/// Recorded work may only depend on values in device memory, at addresses that do not change.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  /// Calls `work`; what it gives to the calling thread's current stream, and to streams that it orders with that one,
  /// is recorded and does not run. Throws what `work` throws, or the device's error for operations that cannot be
  /// recorded; nothing is kept then. Memory that `work` allocates stays reserved for it.
  virtual void record(const std::function<void()>& work) = 0;
  /// Gives the recorded work to the current stream.
  virtual void replay() = 0;
};

}  // namespace ddpm::device
