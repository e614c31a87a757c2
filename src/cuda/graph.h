// CUDA graphs, by LibTorch's, whose allocator keeps the memory of a graph apart.
#pragma once

#include <memory>

#include "comm/device_graph.h"

namespace ddpm::cuda {

std::unique_ptr<comm::DeviceGraph> make_graph();

}  // namespace ddpm::cuda
