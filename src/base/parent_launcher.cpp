#include "base/parent_launcher.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include <unistd.h>

namespace ddpm::base {

std::optional<ParentLauncher> parent_launcher() {
  // mpirun of Open MPI 5 becomes prterun.
  constexpr std::array<std::string_view, 4> kCommands = {"mpirun", "mpiexec", "orterun", "prterun"};
  constexpr std::array<std::string_view, 3> kDaemons = {"orted", "prted", "hydra_pmi_proxy"};
  ParentLauncher parent{.pid = getppid(), .name = {}};
  std::ifstream file("/proc/" + std::to_string(parent.pid) + "/comm");
  std::getline(file, parent.name);
  // Where several kinds of MPI are installed, their commands are mpirun.openmpi, mpiexec.hydra and the like.
  const std::string_view kind = std::string_view(parent.name).substr(0, parent.name.find('.'));
  parent.is_daemon = std::ranges::find(kDaemons, kind) != kDaemons.end();
  if (!parent.is_daemon && std::ranges::find(kCommands, kind) == kCommands.end()) return std::nullopt;
  return parent;
}

}  // namespace ddpm::base
