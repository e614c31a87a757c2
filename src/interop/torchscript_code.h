// Inside src/interop: the forward method of a TorchScript module, in TorchScript's subset of Python.
#pragma once

#include <string>

#include "nn/graph.h"

namespace ddpm::interop {

/// "def forward(self, sample: Tensor, …) -> Tensor: …". Weights are attributes of self under their dotted names;
/// `dtype_of` names one whose type the module computes in.
std::string torchscript_code(const nn::graph::Graph& graph, const std::string& dtype_of);

}  // namespace ddpm::interop
