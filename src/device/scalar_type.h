// LibTorch's name of an element type.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/dtype.h"

namespace ddpm::device {

at::ScalarType scalar_type(base::DType dtype);

}  // namespace ddpm::device
