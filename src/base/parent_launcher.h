// The mpirun that started this process, if one did.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

namespace ddpm::base {

struct ParentLauncher {
  pid_t pid = 0;
  std::string name;  ///< "mpirun"
};

/// The parent process, where it is mpirun or a daemon of its (on hosts that mpirun does not run on). None under another
/// parent: a shell, or slurmstepd.
std::optional<ParentLauncher> parent_launcher();

}  // namespace ddpm::base
