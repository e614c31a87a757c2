// A unit of a user's own model of which only the inputs are kept for backward: see nn/recompute.h.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace ddpm::train {

/// Returns forward(inputs). Where backward needs what that saved, `forward` runs again, with the random numbers that
/// LibTorch's default generator of `device` gave it the first time; afterwards the generator is where it was.
std::vector<at::Tensor> recompute_unit(
    const std::vector<at::Tensor>& inputs,
    const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& forward, c10::Device device);

}  // namespace ddpm::train
