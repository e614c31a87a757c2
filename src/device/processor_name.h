// The name of the host's processors, as the kernel has it.
#pragma once

#include <string>

#include "base/file_system.h"

namespace ddpm::device {

/// "AMD EPYC 7763 64-Core Processor": the first "model name" of `cpuinfo`; "" where there is none, as on Arm.
std::string processor_name(const base::Path& cpuinfo = "/proc/cpuinfo");

}  // namespace ddpm::device
