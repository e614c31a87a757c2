// A GPU's memory for StagedCommunicator. Compiled into libddpm_cuda.so only; the program reaches it through
// device_library.h.
#pragma once

#include <memory>

#include "comm/staged_communicator.h"

namespace ddpm::comm {

/// See DeviceLibrary::make_staged_communicator. Collective over `host`.
std::shared_ptr<DeviceMemory> open_gpu_memory(Communicator& host, int device);

}  // namespace ddpm::comm
