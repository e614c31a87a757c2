// Activation checkpointing: trades memory for computing. Chen, Xu, Zhang, Guestrin: "Training deep nets with sublinear
// memory cost", 2016.
#pragma once

#include <functional>
#include <vector>

#include "nn/unit.h"

namespace ddpm::nn {

/// Returns body(state), of whose saved tensors only those of `state` are kept. When backward first asks for one of the
/// others, the body runs once more, up to the last operation that saves something; each tensor of that second run is
/// freed as soon as backward has used it. Without gradients this is body(state).
///
/// Autograd's graph is the one that the body built the first time, only its saved tensors are exchanged (as PyTorch's
/// checkpoint does with use_reentrant=False). So there is no backward inside of backward: gradients meet in the same
/// order as without recomputing and have the same bits, and a parameter's gradient arrives at its own AccumulateGrad.
///
/// The body is a pure function of the state and the parameters, which the second run reads anew: their storage may have
/// been freed in between, but has the same values again. It lives as long as the graph. A body that saves another
/// number of tensors the second time is a base::InternalError.
[[nodiscard]] UnitState recompute_in_backward(UnitState state, const std::function<UnitState(UnitState)>& body);
/// Does the same for a body from tensors, any of which may be undefined, to tensors.
using TensorsBody = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
[[nodiscard]] std::vector<at::Tensor> recompute_in_backward(const std::vector<at::Tensor>& inputs,
                                                            const TensorsBody& body);

}  // namespace ddpm::nn
