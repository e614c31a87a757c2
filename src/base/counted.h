// Numbers in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddpm::base {

/// 1234567 as "1,234,567".
std::string grouped(int64_t number);
/// A number of things by a noun whose plural ends in s: "1 image", "1,200 images".
std::string counted(int64_t number, std::string_view noun);

}  // namespace ddpm::base
