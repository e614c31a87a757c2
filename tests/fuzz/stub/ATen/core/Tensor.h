// Stands for LibTorch's header where parsers of model files are fuzzed: they include headers that name a tensor in
// declarations, and use none.
#pragma once

namespace at {
class Tensor;
}  // namespace at
