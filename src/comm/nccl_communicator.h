// Collectives over NCCL, on device memory. Compiled into libddpm_cuda.so only; the program reaches it through
// device_library.h.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace ddpm::comm {

/// See DeviceLibrary::make_nccl_communicator. A rank that is alone makes no NCCL communicator. Every operation is put
/// on the stream it is given, after what that stream already holds. Tags are not looked at: messages between two ranks
/// arrive in the order they are sent, and ranks that send to each other at once must use exchange().
std::unique_ptr<Communicator> create_nccl_communicator(Communicator& host, int device);

/// See DeviceLibrary::communicator_failure.
std::string nccl_failure();

/// See DeviceLibrary::abort_communicators.
void abort_nccl_communicators();

}  // namespace ddpm::comm
