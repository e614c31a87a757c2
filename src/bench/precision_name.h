// How benchmarks name what they compute in.
#pragma once

#include <string>

#include "base/named.h"
#include "optim/mixed_precision.h"

namespace ddpm::bench {

/// "float32", "bf16" or "fp16".
inline std::string precision_name(optim::MixedPrecision precision) {
  return precision == optim::MixedPrecision::no ? "float32" : std::string(base::name_of(precision));
}

}  // namespace ddpm::bench
