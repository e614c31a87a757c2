// What golden models over several ranks are compared by.
#pragma once

#include <cmath>

#include <ATen/Functions.h>

#include "nn/unet2d.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::parallel::test {

/// || a - b || / || b || over what all ranks hold. Collective.
inline double relative_error(const at::Tensor& a, const at::Tensor& b, comm::Communicator& ranks) {
  at::Tensor squares = at::stack({(a - b).square().sum(), b.square().sum()}).to(at::kDouble);
  ranks.all_reduce(buffer_of(squares), comm::ReduceOp::sum).wait();
  return std::sqrt((squares[0] / squares[1]).item<double>());
}

/// Gives every rank the sum of the gradients of all; one that has none adds nothing. Collective.
inline void sum_gradients(const nn::UNet2D& unet, comm::Communicator& ranks) {
  for (const nn::Parameter* p : unet.parameters()) {
    if (p->role != base::ParameterRole::trained) continue;
    at::Tensor& gradient = p->value.mutable_grad();
    gradient = gradient.defined() ? gradient.contiguous() : at::zeros(p->value.sizes());
    ranks.all_reduce(buffer_of(gradient), comm::ReduceOp::sum).wait();
  }
}

}  // namespace ddpm::parallel::test
