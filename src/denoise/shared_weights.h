// The weights of a model folder on all ranks, from one reading of the file.
#pragma once

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "comm/communicator.h"
#include "interop/diffusers_reader.h"

namespace ddpm::denoise {

/// Calls `use` on every rank with each weight of the model folder (interop::UNetWeights), in the order of `expected`.
/// Rank 0 reads one weight at a time and sends it to the others, so that the file is read once, and no rank ever holds
/// more than one weight of it. `use` must not throw. Collective; all ranks throw an error of the file together.
void for_each_weight(const base::Path& folder, const interop::ExpectedShapes& expected, comm::Communicator& world,
                     const std::function<void(const std::string& name, const at::Tensor& values)>& use);

}  // namespace ddpm::denoise
