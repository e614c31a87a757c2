// The mpirun that started this process, if one did.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

namespace ddpm::base {

struct ParentLauncher {
  pid_t pid = 0;
  std::string name;        ///< "mpirun"
  bool is_daemon = false;  ///< whether it is not the command itself
};

/// The parent process, where it is mpirun or a daemon of its (Open MPI has one on hosts that mpirun does not run on,
/// MPICH on every host). None under another parent: a shell, or slurmstepd.
std::optional<ParentLauncher> parent_launcher();

}  // namespace ddpm::base
