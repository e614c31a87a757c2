// Launchers are known by the name of the process that has started this one.
#include "base/parent_launcher.h"

#include <tuple>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddpm::base {
namespace {

enum class Seen : int { nobody, command, daemon };

Seen parent_with_name(const char* name) {
  const auto parent = parent_launcher();
  if (!parent || parent->name != name) return Seen::nobody;
  return parent->is_daemon ? Seen::daemon : Seen::command;
}

/// What a child of this process sees while this process has a name.
Seen seen_by_child_of(const char* name) {
  char own[16] = {};
  prctl(PR_GET_NAME, own);
  prctl(PR_SET_NAME, name);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(static_cast<int>(parent_with_name(name)));
  int status = 0;
  ::waitpid(child, &status, 0);
  prctl(PR_SET_NAME, own);
  EXPECT_TRUE(WIFEXITED(status));
  return static_cast<Seen>(WEXITSTATUS(status));
}

TEST(ParentLauncher, IsKnownByItsName) {
  for (const auto& [name, seen] :
       {std::tuple("mpirun", Seen::command), std::tuple("mpiexec", Seen::command), std::tuple("orterun", Seen::command),
        std::tuple("prterun", Seen::command), std::tuple("orted", Seen::daemon), std::tuple("prted", Seen::daemon),
        std::tuple("hydra_pmi_proxy", Seen::daemon), std::tuple("mpirun.openmpi", Seen::command),
        std::tuple("mpiexec.openmpi", Seen::command), std::tuple("mpiexec.hydra", Seen::command),
        std::tuple("bash", Seen::nobody), std::tuple("mpirun_wrapper", Seen::nobody),
        std::tuple("slurmstepd", Seen::nobody)}) {
    EXPECT_TRUE(seen_by_child_of(name) == seen) << name;
  }
}

}  // namespace
}  // namespace ddpm::base
