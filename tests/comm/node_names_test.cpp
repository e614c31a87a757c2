// Names of nodes, of what ranks under srun, mpirun and the mpiexec of MPICH are told of them.
#include "comm/node_names.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/host_name.h"

namespace ddpm::comm {
namespace {

using testing::ElementsAre;

TEST(NodeNames, AreThoseThatSlurmKnows) {
  EXPECT_THAT(node_names({"cn01.site\nnid1", "cn01.site\nnid1", "cn02.site\nnid2"}),
              ElementsAre("nid1", "nid1", "nid2"));
  // Several daemons of Slurm on one host
  EXPECT_THAT(node_names({"box\nnode1", "box\nnode2"}), ElementsAre("node1", "node2"));
}

TEST(NodeNames, AreThoseOfTheHostsWhereOneNodesNameIsOnSeveral) {
  EXPECT_THAT(node_names({"cn01\nnid1", "cn02\nnid1", "cn02\nnid1"}), ElementsAre("cn01", "cn02", "cn02"));
  EXPECT_THAT(node_names({"cn01\nnid1", "cn02\nnid2", "cn03\nnid2"}), ElementsAre("cn01", "cn02", "cn03"));
}

TEST(NodeNames, AreThoseOfTheHostsWhereARankIsToldNone) {
  EXPECT_THAT(node_names({"cn01\n", "cn02\n"}), ElementsAre("cn01", "cn02"));
  EXPECT_THAT(node_names({"cn01\nnid1", "cn02\n"}), ElementsAre("cn01", "cn02"));
}

TEST(NodeNames, ARankSaysItsHostAndWhatSlurmCallsIt) {
  unsetenv("SLURMD_NODENAME");
  EXPECT_EQ(host_lines(), base::host_name() + "\n");
  setenv("SLURMD_NODENAME", "nid000007", 1);
  EXPECT_EQ(host_lines(), base::host_name() + "\nnid000007");
  unsetenv("SLURMD_NODENAME");
}

}  // namespace
}  // namespace ddpm::comm
