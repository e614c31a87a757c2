// Stands for LibTorch's header, whose types a model folder may be stored in.
#pragma once

namespace c10 {
enum class ScalarType { Float, Double, Half, BFloat16 };
}  // namespace c10
