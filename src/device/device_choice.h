// Where a user wants to compute: the values of run.device and of --device.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ddpm::device {

enum class DeviceChoice : uint8_t {
  automatic,  ///< a GPU where there is one
  cpu,
  cuda,
};
constexpr auto names_of(DeviceChoice /*type*/) { return std::to_array<std::string_view>({"auto", "cpu", "cuda"}); }

}  // namespace ddpm::device
