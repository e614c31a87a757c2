// How messages name what was said of a set: by keys of the configuration, or by options of a command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddpm::data {

enum class KeyNames : uint8_t { configuration, options };

/// "data.sample_axes", or "--sample-axes".
std::string key_text(KeyNames names, std::string_view key);
/// "data.lead = 4", or "--lead 4". A value that is a text is quoted in a configuration.
std::string key_text(KeyNames names, std::string_view key, int64_t value);
std::string key_text(KeyNames names, std::string_view key, std::string_view value);

}  // namespace ddpm::data
