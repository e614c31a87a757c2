// Operations that have no kernel for the meta device in LibTorch (Python has some): only shapes are computed there, and
// what autograd would keep.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ddpm::nn {

struct MetaOperation {
  std::vector<at::Tensor> inputs;  ///< those that gradients flow to
  std::vector<int64_t> result_sizes;
  at::TensorOptions result_options;
  std::vector<at::Tensor> saved;  ///< what the CPU's kernel saves for backward, besides the result
  bool saves_result = false;
};

/// The result, a tensor of the meta device, with a node in autograd's graph that saves what the operation saves.
at::Tensor run_on_meta(const MetaOperation& operation);

}  // namespace ddpm::nn
