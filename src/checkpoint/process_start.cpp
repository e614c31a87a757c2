#include "checkpoint/process_start.h"

#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace ddpm::checkpoint {

std::string process_start_of(int64_t pid) {
  constexpr int kStartTimeAfterName = 20;  // field 22 of /proc/PID/stat; the name ends field 2: proc(5)
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return {};
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 0; i < kStartTimeAfterName; ++i) {
    fields >> field;
    if (i == 0 && (field == "Z" || field == "X")) return {};
  }
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{}/{}", boot, field);
}

}  // namespace ddpm::checkpoint
