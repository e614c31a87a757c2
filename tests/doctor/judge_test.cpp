// Tests the findings that facts lead to: those of a spoiled survey, and that a healthy one has none.
#include "doctor/judge.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/survey_case.h"

namespace ddpm::doctor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Judge, HealthyHostsHaveOneOkOfEachArea) {
  for (const auto& [hosts, ranks] : {std::pair(1, 1), std::pair(1, 4), std::pair(2, 2), std::pair(9, 4)}) {
    const auto findings = judge(healthy_survey(hosts, ranks));
    std::set<Area> areas;
    for (const Finding& finding : findings) {
      EXPECT_EQ(finding.severity, Severity::ok) << hosts << " x " << ranks << ": " << finding.seen;
      areas.insert(finding.area);
    }
    EXPECT_EQ(findings.size(), 10U);
    EXPECT_EQ(areas.size(), 10U);
    EXPECT_EQ(exit_code_of(findings), base::ExitCode::done);
  }
}

TEST(Judge, ExitCodesTellTheFolderFromTheRest) {
  const Finding warning{Severity::warning, Area::links, "slow", "exclude"};
  const Finding folder{Severity::problem, Area::folder, "read-only", "another"};
  const Finding devices{Severity::problem, Area::devices, "none", "exclude"};
  EXPECT_EQ(exit_code_of({warning}), base::ExitCode::done);
  EXPECT_EQ(exit_code_of({warning, folder}), base::ExitCode::output);
  EXPECT_EQ(exit_code_of({folder, devices}), base::ExitCode::communication);
  EXPECT_EQ(exit_code_of({devices}), base::ExitCode::communication);
}

TEST(Judge, UnevenHostsAreNamed) {
  Survey survey = make_survey({"node00", "node00", "node01", "node02", "node02"});
  expect(judge_ranks(survey), Severity::warning,
         AllOf(HasSubstr("2 ranks on each of node[00,02]"), HasSubstr("1 rank on node01")));
}

TEST(Judge, LibrariesThatDifferAreAProblemProcessorsAWarningKernelsANote) {
  Survey survey = healthy_survey(3, 2);
  for (const char* name : {"libtorch", "libtorch_of_build"}) survey.ranks[3].versions[name] = "2.12.0";
  expect(judge_versions(survey), Severity::problem,
         AllOf(HasSubstr("2.11.0 on ranks 0-2,4-5"), HasSubstr("2.12.0 on rank 3 on node01")));

  survey = healthy_survey(3, 2);
  for (const std::size_t rank : {4U, 5U}) survey.ranks[rank].versions["cpu_capability"] = "AVX512";
  expect(judge_versions(survey), Severity::warning, HasSubstr("AVX512 on ranks 4-5 on node02"));

  survey = healthy_survey(3, 2);
  survey.ranks[2].machine.kernel = "5.14.0";
  expect(judge_versions(survey), Severity::note,
         AllOf(HasSubstr("5.14.0 on node01"), HasSubstr("6.1.0 on node[00,02]")));
}

TEST(Judge, ALibTorchThatTheProgramWasNotBuiltForIsNamedWithItsFile) {
  Survey survey = healthy_survey(2, 2);
  for (auto& rank : survey.ranks) {
    rank.versions["libtorch"] = "2.10.1";
    rank.libtorch_file = "/conda/lib/libtorch_cpu.so";
  }
  expect(judge_versions(survey), Severity::problem,
         AllOf(HasSubstr("LibTorch 2.10.1 is used (/conda/lib/libtorch_cpu.so)"), HasSubstr("built for 2.11.0"),
               HasSubstr("ranks 0-3 on node[00-01]")));
}

TEST(Judge, CudaAndNcclThatDifferAreAProblemOfTheRanksThatHaveThem) {
  Survey survey = healthy_survey(3, 1);
  for (const std::size_t rank : {0U, 2U}) survey.ranks[rank].versions["nccl"] = "2.21.5";
  expect(judge_versions(survey), Severity::ok, HasSubstr("LibTorch"));
  survey.ranks[2].versions["nccl"] = "2.19.3";
  expect(judge_versions(survey), Severity::problem,
         AllOf(HasSubstr("nccl: 2.21.5 on rank 0 on node00"), HasSubstr("2.19.3 on rank 2 on node02")));
}

TEST(Judge, VariablesThatDifferAreNamedButForThoseThatMay) {
  Survey survey = healthy_survey(2, 2);
  survey.ranks[1].environment["OMP_NUM_THREADS"] = "1";
  survey.ranks[2].environment["NCCL_IB_DISABLE"] = "1";
  survey.ranks[2].environment["CUDA_VISIBLE_DEVICES"] = "3,1";
  const auto findings = judge_environment(survey);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].seen, AllOf(HasSubstr("NCCL_IB_DISABLE"), HasSubstr("(not set) on ranks 0-1,3"),
                                      HasSubstr("1 on rank 2 on node01")));
  EXPECT_THAT(findings[1].seen, AllOf(HasSubstr("OMP_NUM_THREADS"), HasSubstr("1 on rank 1 on node00")));
}

TEST(Judge, RanksThatLoadLibrariesFromTheWorkingDirectoryAreNamed) {
  Survey survey = healthy_survey(2, 2);
  for (const std::size_t rank : {2U, 3U}) survey.ranks[rank].library_path_problem = "an empty element";
  expect(judge_environment(survey), Severity::warning,
         AllOf(HasSubstr("LD_LIBRARY_PATH has an empty element"), HasSubstr("working directory"),
               HasSubstr("ranks 2-3 on node01")));
}

TEST(Judge, RanksThatShareCpusAreNamed) {
  Survey survey = healthy_survey(3, 2);
  survey.ranks[3].cpus = {2, 3, 4, 5};
  survey.ranks[3].threads = 2;
  const auto findings = judge_binding(survey);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_THAT(findings[0].seen, HasSubstr("ranks 2 and 3 share CPUs 2-3 on node01"));
}

TEST(Judge, AllRanksOnOneCoreAreSeenThoughTheirMasksAreEqual) {
  Survey survey = healthy_survey(1, 4);
  for (auto& rank : survey.ranks) {
    rank.cpus = {0};
    rank.threads = 1;
  }
  const auto findings = judge_binding(survey);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].seen, HasSubstr("ranks 0 and 1 share CPU 0"));
  EXPECT_THAT(findings[1].seen, HasSubstr("4 ranks compute with 4 threads on 1 CPU"));
}

TEST(Judge, UnboundRanksAreFineOnOneNode) {
  Survey survey = healthy_survey(1, 2);
  for (auto& rank : survey.ranks) rank.cpus = survey.ranks[0].machine.cpus;
  survey.ranks[0].machine.numa_nodes = {survey.ranks[0].machine.cpus};
  expect(judge_binding(survey), Severity::ok, HasSubstr("not bound"));
  survey.ranks[0].machine.numa_nodes = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  expect(judge_binding(survey), Severity::warning, HasSubstr("a rank's CPUs lie in 2 NUMA nodes on node00"));
}

TEST(Judge, IdleAndOverbookedCpusAreSeen) {
  Survey survey = healthy_survey(2, 2);
  for (auto& rank : survey.ranks) rank.threads = 1;
  expect(judge_binding(survey), Severity::warning,
         HasSubstr("2 threads on 8 cores that the ranks may use on node[00-01]"));

  survey = healthy_survey(2, 2);
  survey.ranks[2].threads = 8;
  expect(judge_binding(survey), Severity::warning, HasSubstr("2 ranks compute with 12 threads on 8 CPUs on node01"));

  survey = healthy_survey(1, 2);
  survey.ranks[0].machine.cpu_limit = 2.5;
  expect(judge_binding(survey), Severity::warning,
         HasSubstr("8 threads may use 8 CPUs, but the cgroup gives the time of 2.5 CPUs"));

  survey = healthy_survey(1, 2);
  survey.ranks[0].machine.cores = {0, 1, 2, 3, 0, 1, 2, 3};
  expect(judge_binding(survey), Severity::note, HasSubstr("8 threads on 4 cores"));

  survey = healthy_survey(2, 2);
  survey.ranks[2].machine.load = 9.0;
  expect(judge_binding(survey), Severity::note,
         HasSubstr("9 processes wanted 8 CPUs before this program came on node01"));
}

TEST(Judge, CoresThatNoRankMayUseAreSeen) {
  // This is what mpirun -np 2 does on eight cores: each rank gets one core.
  Survey survey = healthy_survey(1, 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    survey.ranks[rank].cpus = {static_cast<int>(4 * rank)};
    survey.ranks[rank].threads = 1;
  }
  expect(judge_binding(survey), Severity::warning, HasSubstr("2 ranks are bound to 2 of the job's 8 cores on node00"));

  survey.ranks[0].machine.cpuset = {0, 4, 5};
  expect(judge_binding(survey), Severity::ok, HasSubstr("CPUs of its own"));
  survey.ranks[0].machine.cpuset = {};
  survey.ranks[0].allocated_cpus = 2;
  expect(judge_binding(survey), Severity::ok, HasSubstr("CPUs of its own"));

  // One hardware thread of each core, and Slurm counts both.
  survey = healthy_survey(1, 2);
  for (int cpu = 8; cpu < 16; ++cpu) {
    survey.ranks[0].machine.cpus.push_back(cpu);
    survey.ranks[0].machine.cores.push_back(cpu - 8);
  }
  for (auto& rank : survey.ranks) rank.allocated_cpus = 16;
  expect(judge_binding(survey), Severity::ok, HasSubstr("CPUs of its own"));

  // A rank with a GPU of its own needs few cores.
  survey = healthy_survey(1, 1);
  survey.ranks[0].cpus = {0};
  survey.ranks[0].threads = 1;
  survey.ranks[0].gpus.gpus = {{"Some GPU", "0000:18:00.0", int64_t{80} << 30}};
  expect(judge_binding(survey), Severity::ok, HasSubstr("one rank per host"));
}

TEST(Judge, MemoryAndSharedMemoryThatAreShort) {
  Survey survey = healthy_survey(2, 2);
  survey.ranks[2].machine.shared_memory_free_bytes = int64_t{20} << 20;
  expect(judge_memory(survey), Severity::warning, HasSubstr("20 MiB free in /dev/shm for 2 ranks on node01"));

  survey = healthy_survey(2, 2);
  survey.ranks[2].machine.memory_limit_bytes = int64_t{1} << 30;
  survey.ranks[2].machine.available_bytes = int64_t{1} << 30;
  const auto findings = judge_memory(survey);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].seen, HasSubstr("1 GiB of memory for 2 ranks on node01"));
  EXPECT_THAT(findings[1].seen, HasSubstr("the job may use 1 GiB of 64 GiB on node01"));

  survey = healthy_survey(2, 2);
  survey.ranks[0].machine.huge_pages = "never";
  expect(judge_memory(survey), Severity::note, HasSubstr("no transparent huge pages on node00"));

  survey = healthy_survey(3, 1);
  survey.ranks[1].machine.memory_bytes = int64_t{32} << 30;
  expect(judge_memory(survey), Severity::note, HasSubstr("32 GiB of memory, others have 64 GiB, on node01"));
}

TEST(Judge, LockedMemoryMattersBesideAnAdapterOnly) {
  Survey survey = healthy_survey(2, 1);
  for (auto& rank : survey.ranks) rank.limits["locked_memory_bytes"] = int64_t{64} << 10;
  EXPECT_EQ(only(judge_limits(survey)).severity, Severity::ok);
  for (auto& rank : survey.ranks) rank.machine.fabric_ports = {{"mlx5_0/1", "ACTIVE", "200 Gb/sec"}};
  expect(judge_limits(survey), Severity::warning,
         HasSubstr("64 KiB of locked memory beside an active network adapter on node[00-01]"));

  survey = healthy_survey(3, 1);
  for (auto& rank : survey.ranks) rank.machine.fabric_ports = {{"mlx5_0/1", "ACTIVE", "200 Gb/sec"}};
  survey.ranks[1].machine.fabric_ports[0].state = "DOWN";
  expect(judge_limits(survey), Severity::warning, HasSubstr("mlx5_0/1 DOWN 200 Gb/sec on node01"));

  survey = healthy_survey(1, 1);
  survey.ranks[0].limits["open_files"] = 256;
  expect(judge_limits(survey), Severity::warning, HasSubstr("256 open files on node00"));
}

class Devices : public testing::Test {
 protected:
  /// `each` sees as many GPUs: all of its host, or one of its own.
  static Survey survey(int hosts, int ranks, int gpus, bool own) {
    Survey survey = healthy_survey(hosts, ranks);
    for (std::size_t rank = 0; rank < survey.ranks.size(); ++rank) {
      device::DeviceFacts& facts = survey.ranks[rank].gpus;
      for (int gpu = 0; gpu < (own ? 1 : gpus); ++gpu) {
        const int number = own ? static_cast<int>(rank) % ranks : gpu;
        facts.gpus.push_back({"NVIDIA H100", fmt::format("0000:0{}:00.0", number), int64_t{80} << 30});
      }
      facts.peer_access.assign(facts.gpus.size(), std::vector<int>(facts.gpus.size(), 1));
      survey.ranks[rank].machine.gpu_driver = "550.54";
    }
    return survey;
  }
};

TEST_F(Devices, OneForEachRankIsFine) {
  EXPECT_EQ(only(judge_devices(survey(2, 4, 4, false))).severity, Severity::ok);
  EXPECT_EQ(only(judge_devices(survey(2, 4, 4, true))).severity, Severity::ok);
}

TEST_F(Devices, AHostWithoutIsNamed) {
  Survey one = survey(3, 2, 2, false);
  for (const std::size_t rank : {2U, 3U}) one.ranks[rank].gpus = {};
  expect(judge_devices(one), Severity::warning,
         AllOf(HasSubstr("2 x NVIDIA H100 on ranks 0-1,4-5"), HasSubstr("none on ranks 2-3 on node01")));
  EXPECT_FALSE(gpus_of_their_own(one));
}

TEST_F(Devices, EachRanksOwnAreThoseThatNobodyShares) {
  EXPECT_TRUE(gpus_of_their_own(survey(2, 4, 4, false)));
  EXPECT_TRUE(gpus_of_their_own(survey(2, 4, 4, true)));
  EXPECT_FALSE(gpus_of_their_own(survey(1, 4, 2, false)));
  Survey mixed = survey(2, 2, 2, false);
  for (auto& gpu : mixed.ranks[2].gpus.gpus) gpu.name = "NVIDIA A100";
  EXPECT_TRUE(gpus_of_their_own(mixed));
}

TEST_F(Devices, ThatRanksMustShareAreNamed) {
  expect(judge_devices(survey(1, 4, 2, false)), Severity::problem, HasSubstr("4 ranks see 2 GPUs"));
  Survey one = survey(2, 2, 2, true);
  one.ranks[3].gpus.gpus[0].bus_id = one.ranks[2].gpus.gpus[0].bus_id;
  expect(judge_devices(one), Severity::warning, HasSubstr("ranks 2-3 share GPU 0000:00:00.0 on node01"));
  for (ProcessFacts& rank : one.ranks) rank.gpus.gpus[0].name = "NVIDIA A100-SXM4-40GB MIG 3g.20gb";
  EXPECT_EQ(only(judge_devices(one)).severity, Severity::ok) << "instances of one GPU";
  expect(judge_devices(survey(1, 2, 4, false)), Severity::note, HasSubstr("2 ranks see 4 GPUs"));
}

TEST_F(Devices, AreToBeSeenByAllRanksOfTheirNode) {
  Survey shared = survey(2, 2, 2, true);
  shared.ranks[3].gpus.gpus[0].bus_id = shared.ranks[2].gpus.gpus[0].bus_id;
  for (const Survey& one : {survey(1, 4, 2, false), shared}) {
    EXPECT_THAT(only(judge_devices(one)).advice, HasSubstr("--gpus-per-node=N --gpu-bind=none"));
  }
}

TEST_F(Devices, ThatCannotReachEachOtherAreNamed) {
  Survey one = survey(2, 4, 4, false);
  one.ranks[4].gpus.peer_access[1][3] = 0;
  expect(judge_devices(one), Severity::note, HasSubstr("GPUs 1 and 3 cannot reach each other's memory on node01"));
}

TEST_F(Devices, ADriverWithoutUseIsExplained) {
  Survey one = healthy_survey(1, 2);
  for (auto& rank : one.ranks) rank.gpu_problem = "libddpm_cuda.so cannot be loaded";
  expect(judge_devices(one), Severity::warning, HasSubstr("libddpm_cuda.so cannot be loaded; ranks 0-1 on node00"));
}

}  // namespace
}  // namespace ddpm::doctor
