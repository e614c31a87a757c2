// Sizes of images on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddpm::cli {

/// The sides that `text`, the value of `option`, names: "64x128" is height 64 and width 128, of volumes the depth comes
/// first. Throws ConfigError for anything else.
std::vector<int64_t> sides_of(const std::string& option, const std::string& text);

}  // namespace ddpm::cli
