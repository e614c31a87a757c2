#include "device/scalar_type.h"

#include "base/error.h"

namespace ddpm::device {

at::ScalarType scalar_type(base::DType dtype) {
  switch (dtype) {
    case base::DType::f64:
      return at::kDouble;
    case base::DType::f16:
      return at::kHalf;
    case base::DType::bf16:
      return at::kBFloat16;
    case base::DType::i64:
      return at::kLong;
    case base::DType::i32:
      return at::kInt;
    case base::DType::u8:
      return at::kByte;
    case base::DType::f32:
      return at::kFloat;
  }
  throw base::InternalError("dtype {}", static_cast<int>(dtype));
}

}  // namespace ddpm::device
