// Waiting for what this thread has given a device.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ddpm::device {

/// Blocks until the caller's stream has done what it was given; a host has nothing to wait for. Other streams may hold
/// messages whose arrival depends on what this rank has yet to do.
inline void wait_for_current_stream(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl streams(device.type());
  streams.synchronizeStream(streams.getStream(device));
}

}  // namespace ddpm::device
