// Element types that cross library borders (communication, datasets, checkpoints) without naming LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddpm::base {

enum class DType : uint8_t { u8, i32, i64, f16, bf16, f32, f64 };

/// Bytes per element.
std::size_t size_of(DType dtype);
/// The name that safetensors uses: "U8", "I32", "I64", "F16", "BF16", "F32", "F64".
std::string_view safetensors_name(DType dtype);

}  // namespace ddpm::base
