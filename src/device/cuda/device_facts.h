// The GPUs of this process, for `ddpm doctor` and `ddpm env`.
#pragma once

#include <string>

#include "device/device_library.h"

namespace ddpm::device::cuda {

/// See DeviceFunctions::describe_devices.
bool describe_devices(DeviceFacts& facts, std::string& error);

}  // namespace ddpm::device::cuda
