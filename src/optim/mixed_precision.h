// The values of precision.mixed_precision.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ddpm::optim {

/// Dtype of working weights and activations; `no` is float32.
enum class MixedPrecision : uint8_t { no, bf16, fp16 };
constexpr auto names_of(MixedPrecision /*type*/) { return std::to_array<std::string_view>({"no", "bf16", "fp16"}); }

}  // namespace ddpm::optim
