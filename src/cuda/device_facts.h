// The GPUs of this process, for `ddpm doctor` and `ddpm env`.
#pragma once

#include <string>

#include "comm/device_library.h"

namespace ddpm::cuda {

/// See DeviceFunctions::describe_devices.
bool describe_devices(comm::DeviceFacts& facts, std::string& error);

}  // namespace ddpm::cuda
