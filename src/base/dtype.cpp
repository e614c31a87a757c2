#include "base/dtype.h"

#include "base/error.h"

namespace ddpm::base {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return 1;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::i32:
    case DType::f32:
      return 4;
    case DType::i64:
    case DType::f64:
      return 8;
  }
  throw InternalError("no such element type: {}", static_cast<int>(dtype));
}

std::string_view safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return "U8";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f32:
      return "F32";
    case DType::f64:
      return "F64";
  }
  throw InternalError("no such element type: {}", static_cast<int>(dtype));
}

}  // namespace ddpm::base
