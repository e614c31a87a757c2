#include "base/parent_launcher.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include <unistd.h>

namespace ddpm::base {

std::optional<ParentLauncher> parent_launcher() {
  constexpr std::array<std::string_view, 6> kLaunchers = {"mpirun", "mpiexec", "orterun",
                                                          "orted",  "prted",   "hydra_pmi_proxy"};
  ParentLauncher parent{.pid = getppid(), .name = {}};
  std::ifstream file("/proc/" + std::to_string(parent.pid) + "/comm");
  std::getline(file, parent.name);
  if (std::ranges::find(kLaunchers, parent.name) == kLaunchers.end()) return std::nullopt;
  return parent;
}

}  // namespace ddpm::base
