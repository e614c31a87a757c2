#include "base/host_name.h"

#include <array>

#include <gtest/gtest.h>
#include <unistd.h>

namespace ddpm::base {
namespace {

TEST(HostName, IsTheComputersOwnWhateverABatchSystemCallsIt) {
  std::array<char, 256> name{};
  ASSERT_EQ(gethostname(name.data(), name.size() - 1), 0);
  setenv("SLURMD_NODENAME", "nid000007", 1);
  EXPECT_EQ(host_name(), name.data());
  unsetenv("SLURMD_NODENAME");
}

}  // namespace
}  // namespace ddpm::base
