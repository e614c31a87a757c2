// CUDA graphs, by LibTorch's, whose allocator keeps the memory of a graph apart.
#pragma once

#include <memory>

#include "device/device_graph.h"

namespace ddpm::device::cuda {

std::unique_ptr<DeviceGraph> make_graph();

}  // namespace ddpm::device::cuda
