// Sizes of images on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/field.h"

namespace ddpm::cli {

/// The sides that `text`, the value of `option`, names: "64x128" is height 64 and width 128, of volumes the depth comes
/// first. Throws ConfigError, which says what is `wanted`, for anything else, and for sides above `most`.
std::vector<int64_t> sides_of(const std::string& option, const std::string& text, int64_t most = data::kMaxSide,
                              const std::string& wanted = "a size such as 64x128");

}  // namespace ddpm::cli
