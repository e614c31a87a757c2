#include "doctor/host_facts.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "doctor/mount.h"
#include "doctor/process_json.h"
#include "support/temporary_folder.h"

namespace ddpm::doctor {
namespace {

/// A tree of files as the kernel shows them.
class Host {
 public:
  void file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    test::write_text(folder_.path() / name, text);
  }
  [[nodiscard]] HostFacts facts() const { return read_host_facts(folder_.path()); }

 private:
  test::TemporaryFolder folder_;
};

/// Two packages of two cores with two hardware threads each, one NUMA node per package; a third node is memory alone.
void add_processors(Host& host) {
  const std::string cpu = "sys/devices/system/cpu/";
  host.file(cpu + "online", "0-7\n");
  for (int i = 0; i < 8; ++i) {
    const std::string topology = cpu + "cpu" + std::to_string(i) + "/topology/";
    host.file(topology + "physical_package_id", std::to_string(i % 4 / 2) + "\n");
    host.file(topology + "core_id", std::to_string(i % 2) + "\n");
  }
  host.file("sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
  host.file("sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
  host.file("sys/devices/system/node/node2/cpulist", "\n");
}

TEST(HostFacts, ProcessorsAreCountedByCoreAndNode) {
  Host host;
  add_processors(host);
  host.file("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nprocessor\t: 1\nmodel name\t: Other\n");
  const HostFacts facts = host.facts();
  EXPECT_EQ(facts.cpus, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(facts.cores, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(facts.numa_nodes, (std::vector<std::vector<int>>{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(facts.cpu_model, "Some CPU @ 2 GHz");
}

TEST(HostFacts, TheTightestLimitOfAllGroupsCounts) {
  Host host;
  host.file("proc/meminfo", "MemTotal:       65536000 kB\nMemFree: 1 kB\nMemAvailable:   60000000 kB\n");
  host.file("proc/self/cgroup", "0::/slurm/job_5/step_0\n");
  host.file("sys/fs/cgroup/slurm/job_5/step_0/memory.max", "max\n");
  host.file("sys/fs/cgroup/slurm/job_5/memory.max", "17179869184\n");
  host.file("sys/fs/cgroup/slurm/memory.max", "34359738368\n");
  host.file("sys/fs/cgroup/slurm/cpu.max", "250000 100000\n");
  host.file("sys/fs/cgroup/slurm/job_5/cpu.max", "max 100000\n");
  const HostFacts facts = host.facts();
  EXPECT_EQ(facts.memory_bytes, int64_t{65536000} * 1024);
  EXPECT_EQ(facts.available_bytes, int64_t{16} << 30);
  EXPECT_EQ(facts.memory_limit_bytes, int64_t{16} << 30);
  EXPECT_DOUBLE_EQ(facts.cpu_limit, 2.5);
  EXPECT_TRUE(facts.cpuset.empty());
}

TEST(HostFacts, TheInnermostSetOfCpusCounts) {
  Host host;
  host.file("proc/self/cgroup", "0::/slurm/job_5/step_0\n");
  host.file("sys/fs/cgroup/slurm/job_5/cpuset.cpus.effective", "0-3,8\n");
  host.file("sys/fs/cgroup/cpuset.cpus.effective", "0-63\n");
  EXPECT_EQ(host.facts().cpuset, (std::vector<int>{0, 1, 2, 3, 8}));
  Host older;
  older.file("proc/self/cgroup", "3:cpuset:/job\n2:memory:/job\n");
  older.file("sys/fs/cgroup/cpuset/job/cpuset.effective_cpus", "4-5\n");
  older.file("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-63\n");
  EXPECT_EQ(older.facts().cpuset, (std::vector<int>{4, 5}));
}

TEST(HostFacts, GroupsOfTheFirstVersionAreRead) {
  Host host;
  host.file("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/\n");
  host.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // "no limit"
  EXPECT_EQ(host.facts().memory_limit_bytes, -1);
  host.file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  host.file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
  host.file("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  host.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  host.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(host.facts().memory_limit_bytes, int64_t{1} << 30);
  EXPECT_DOUBLE_EQ(host.facts().cpu_limit, 4.0);
}

TEST(HostFacts, AdaptersAndDriversAreNamed) {
  Host host;
  host.file("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  host.file("sys/class/infiniband/mlx5_1/ports/1/rate", "10 Gb/sec (4X SDR)\n");
  host.file("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  host.file("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  host.file(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12.2\n");
  host.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const HostFacts facts = host.facts();
  ASSERT_EQ(facts.fabric_ports.size(), 2U);
  EXPECT_EQ(facts.fabric_ports[0].name, "mlx5_0/1");
  EXPECT_EQ(facts.fabric_ports[0].state, "ACTIVE");
  EXPECT_EQ(facts.fabric_ports[0].rate, "200 Gb/sec (4X HDR)");
  EXPECT_EQ(facts.fabric_ports[1].state, "DOWN");
  EXPECT_EQ(facts.gpu_driver, "550.54.15");
  EXPECT_EQ(facts.huge_pages, "madvise");
}

TEST(HostFacts, SlingshotsAdaptersAreDevicesAndInterfaces) {
  Host host;
  for (const auto& [name, state, speed] :
       {std::tuple("hsn1", "down\n", "-1\n"), std::tuple("hsn0", "up\n", "200000\n"),
        std::tuple("hsn0.5", "up\n", "200000\n"), std::tuple("eth0", "up\n", "1000\n")}) {
    host.file(std::string("sys/class/net/") + name + "/operstate", state);
    host.file(std::string("sys/class/net/") + name + "/speed", speed);
  }
  EXPECT_TRUE(host.facts().fabric_ports.empty()) << "interfaces of that name alone are InfiniBand's";
  for (const char* name : {"cxi1", "cxi0"})
    host.file(std::string("sys/class/cxi/") + name + "/device/numa_node", "0\n");
  const HostFacts facts = host.facts();
  EXPECT_EQ(facts.cxi_devices, (std::vector<std::string>{"cxi0", "cxi1"}));
  ASSERT_EQ(facts.fabric_ports.size(), 2U);
  EXPECT_EQ(facts.fabric_ports[0].name, "hsn0");
  EXPECT_EQ(facts.fabric_ports[0].state, "ACTIVE");
  EXPECT_EQ(facts.fabric_ports[0].rate, "200 Gb/sec");
  EXPECT_EQ(facts.fabric_ports[1].state, "DOWN");
  EXPECT_EQ(facts.fabric_ports[1].rate, "");
}

TEST(HostFacts, AnEmptyTreeIsNoError) {
  const HostFacts facts = Host().facts();
  EXPECT_TRUE(facts.cpus.empty());
  EXPECT_EQ(facts.memory_limit_bytes, -1);
  EXPECT_EQ(facts.shared_memory_bytes, 0);
  EXPECT_EQ(facts.gpu_driver, "");
}

TEST(HostFacts, ThisHostHasProcessorsAndMemoryAndTravelsAsJson) {
  const HostFacts facts = read_host_facts();
  EXPECT_FALSE(facts.cpus.empty());
  EXPECT_EQ(facts.cores.size(), facts.cpus.size());
  EXPECT_GT(facts.memory_bytes, facts.available_bytes);
  EXPECT_GT(facts.available_bytes, 0);
  const base::Json sent = facts;
  EXPECT_EQ(base::Json(base::Json::parse(sent_text(sent)).get<HostFacts>()), sent);
}

TEST(ProcessFacts, EmptyAndRelativeElementsOfALibraryPathAreTheWorkingDirectory) {
  for (const char* path : {":/a", "/a:", "/a::/b", "/a;;/b", ":"}) {
    EXPECT_EQ(working_directory_in(path), "an empty element") << path;
  }
  EXPECT_EQ(working_directory_in("/a:lib:/b"), "the relative element 'lib'");
  EXPECT_EQ(working_directory_in("."), "the relative element '.'");
  for (const char* path : {"", "/a", "/a:/b/c", "$ORIGIN/../lib:/a"}) EXPECT_EQ(working_directory_in(path), "") << path;
}

TEST(ProcessFacts, WhatIsNotUtf8TravelsToo) {
  ProcessFacts facts;
  facts.environment["LD_LIBRARY_PATH"] = "/home/m\xfcller";
  const auto received = base::Json::parse(sent_text(facts)).get<ProcessFacts>();
  EXPECT_EQ(received.environment.at("LD_LIBRARY_PATH"), "/home/m\xef\xbf\xbdller");
}

TEST(Mounts, TheLongestFittingPointCounts) {
  constexpr const char* kMounts =
      "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "30 21 0:40 / /scratch rw,noatime - lustre mgs@tcp:/fs rw,flock\n"
      "31 21 0:41 / /scratch/my\\040disk rw shared:5 master:2 - nfs4 server:/my\\040disk rw\n"
      "damaged line\n";
  EXPECT_EQ(find_mount(kMounts, "/scratch/a/b").type, "lustre");
  EXPECT_EQ(find_mount(kMounts, "/scratch").point, "/scratch");
  EXPECT_EQ(find_mount(kMounts, "/scratchy").type, "ext4");
  EXPECT_EQ(find_mount(kMounts, "/scratch/my disk/run").type, "nfs4");
  EXPECT_EQ(find_mount(kMounts, "/scratch/my disk/run").source, "server:/my disk");
  EXPECT_EQ(find_mount("", "/scratch").type, "");
}

}  // namespace
}  // namespace ddpm::doctor
