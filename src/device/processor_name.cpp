#include "device/processor_name.h"

#include <fstream>

namespace ddpm::device {

std::string processor_name(const base::Path& cpuinfo) {
  std::ifstream file(cpuinfo, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace ddpm::device
