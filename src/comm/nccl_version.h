// Which NCCL is loaded. Compiled into libddpm_cuda.so only.
#pragma once

#include <string>

namespace ddpm::comm {

/// "2.28.3"
std::string nccl_library_version();

}  // namespace ddpm::comm
