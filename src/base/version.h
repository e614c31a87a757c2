// The program's version, from CMakeLists.txt.
#pragma once

namespace ddpm::base {

inline constexpr const char* kVersion = DDPM_VERSION;

}  // namespace ddpm::base
