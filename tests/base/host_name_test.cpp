#include "base/host_name.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

TEST(NodeName, IsTheOneThatSlurmKnows) {
  unsetenv("SLURMD_NODENAME");
  EXPECT_EQ(node_name(), host_name());
  setenv("SLURMD_NODENAME", "", 1);
  EXPECT_EQ(node_name(), host_name());
  setenv("SLURMD_NODENAME", "nid000007", 1);
  EXPECT_EQ(node_name(), "nid000007");
  EXPECT_NE(host_name(), "nid000007");
  unsetenv("SLURMD_NODENAME");
}

}  // namespace
}  // namespace ddpm::base
