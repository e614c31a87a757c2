// One value of TOML, as the command line gives it.
#pragma once

#include <optional>
#include <string_view>

#include "config/schema.h"

namespace ddpm::config {

/// `text` as a TOML value, or nothing when it is not one.
std::optional<Value> parse_toml_value(std::string_view text);

}  // namespace ddpm::config
