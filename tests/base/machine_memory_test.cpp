#include "base/machine_memory.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/temporary_folder.h"

namespace ddpm::base {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

/// A tree of files as the kernel shows them, of a host of 64 GiB with 60 of them free.
class MachineMemoryTest : public testing::Test {
 protected:
  void SetUp() override { file("proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable:  62914560 kB\n"); }
  void file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    test::write_text(folder_.path() / name, text);
  }
  void bytes(const std::string& name, int64_t value) { file(name, std::to_string(value) + "\n"); }
  [[nodiscard]] MachineMemory memory() const { return read_machine_memory(folder_.path()); }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(MachineMemoryTest, WithoutGroupsIsThatOfTheHost) {
  EXPECT_EQ(memory().total, 64 * kGib);
  EXPECT_EQ(memory().available, 60 * kGib);
  EXPECT_EQ(memory().limit, -1);
  EXPECT_EQ(memory().most(), 64 * kGib);
}

TEST_F(MachineMemoryTest, EachGroupAroundTheProcessMayHaveTheLeastLeft) {
  file("proc/self/cgroup", "0::/slurm/job_5/step_0\n");
  file("sys/fs/cgroup/slurm/job_5/step_0/memory.max", "max\n");
  bytes("sys/fs/cgroup/slurm/job_5/memory.max", 16 * kGib);
  bytes("sys/fs/cgroup/slurm/memory.max", 32 * kGib);
  EXPECT_EQ(memory().available, 16 * kGib);
  bytes("sys/fs/cgroup/slurm/job_5/memory.current", 6 * kGib);
  EXPECT_EQ(memory().available, 10 * kGib);
  bytes("sys/fs/cgroup/slurm/memory.current", 30 * kGib);  // other jobs have it
  EXPECT_EQ(memory().available, 2 * kGib);
  EXPECT_EQ(memory().limit, 16 * kGib);
  EXPECT_EQ(memory().most(), 16 * kGib);
}

TEST_F(MachineMemoryTest, PagesOfFilesGiveWay) {
  file("proc/self/cgroup", "0::/job\n");
  bytes("sys/fs/cgroup/job/memory.max", 8 * kGib);
  bytes("sys/fs/cgroup/job/memory.current", 7 * kGib);
  file("sys/fs/cgroup/job/memory.stat",
       "anon 1073741824\nfile 6442450944\nshmem 1073741824\ninactive_file 4294967296\nactive_file 1073741824\n");
  EXPECT_EQ(memory().available, 6 * kGib);  // shared memory does not give way
}

TEST_F(MachineMemoryTest, AGroupBeyondItsLimitHasNothingLeft) {
  file("proc/self/cgroup", "0::/job\n");
  bytes("sys/fs/cgroup/job/memory.max", kGib);
  bytes("sys/fs/cgroup/job/memory.current", 2 * kGib);
  EXPECT_EQ(memory().available, 0);
}

TEST_F(MachineMemoryTest, GroupsOfTheFirstVersionCountAlike) {
  file("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/\n");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  EXPECT_EQ(memory().limit, -1);
  bytes("sys/fs/cgroup/memory/job/memory.limit_in_bytes", 4 * kGib);
  bytes("sys/fs/cgroup/memory/job/memory.usage_in_bytes", 3 * kGib);
  file("sys/fs/cgroup/memory/job/memory.stat",
       "inactive_file 1\ntotal_inactive_file 1073741824\ntotal_active_file 0\n");
  EXPECT_EQ(memory().limit, 4 * kGib);
  EXPECT_EQ(memory().available, 2 * kGib);
}

TEST_F(MachineMemoryTest, ALimitBeyondTheHostsMemoryChangesNothing) {
  file("proc/self/cgroup", "0::/job\n");
  bytes("sys/fs/cgroup/job/memory.max", 100 * kGib);
  EXPECT_EQ(memory().available, 60 * kGib);
  EXPECT_EQ(memory().most(), 64 * kGib);
}

TEST(MachineMemory, OfThisHostIsSomeMemory) {
  const MachineMemory memory = read_machine_memory();
  EXPECT_GT(memory.available, 0);
  EXPECT_LE(memory.available, memory.most());
}

TEST(MachineMemory, IsLimitedByTheTightestLimitOfTheProcess) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  const auto outside = process_memory_limit();
  const rlimit tight{.rlim_cur = static_cast<rlim_t>(kGib), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &tight), 0);
  EXPECT_EQ(process_memory_limit(), std::min(outside.value_or(kGib), kGib));
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_EQ(process_memory_limit(), outside);
}

}  // namespace
}  // namespace ddpm::base
