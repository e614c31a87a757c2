// Tests the findings about HPE Slingshot, in planted environments of ranks with GPUs.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/named.h"
#include "doctor/judge.h"
#include "doctor/survey_case.h"

namespace ddpm::doctor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

/// What HPE recommends for NCCL.
const std::map<std::string, std::string> kRecommended = {{"FI_MR_CACHE_MONITOR", "userfaultfd"},
                                                         {"FI_CXI_DISABLE_HOST_REGISTER", "1"},
                                                         {"FI_CXI_DEFAULT_CQ_SIZE", "131072"},
                                                         {"FI_CXI_RDZV_PROTO", "alt_read"},
                                                         {"FI_CXI_DEFAULT_TX_SIZE", "2048"},
                                                         {"FI_CXI_RX_MATCH_MODE", "hybrid"},
                                                         {"NCCL_CROSS_NIC", "1"},
                                                         {"NCCL_NET_GDR_LEVEL", "PHB"},
                                                         {"NCCL_SOCKET_IFNAME", "hsn0,hsn1"},
                                                         {"NCCL_NET", "AWS Libfabric"}};

/// Hosts with two Slingshot adapters; each rank has a GPU of its own, and what NCCL wants, but for `without`.
Survey slingshot_survey(int hosts, int ranks_per_host, const std::string& without = "") {
  Survey survey = healthy_survey(hosts, ranks_per_host);
  for (ProcessFacts& rank : survey.ranks) {
    rank.environment.insert(kRecommended.begin(), kRecommended.end());
    rank.environment.erase(without);
    rank.nccl_plugin = "/opt/aws-ofi-nccl/lib/libnccl-net.so";
    rank.versions["nccl"] = "2.28.9";
    for (int gpu = 0; gpu < ranks_per_host; ++gpu) {
      rank.gpus.gpus.push_back({.name = "GH200",
                                .bus_id = fmt::format("0000:0{}:00.0", gpu),
                                .memory_bytes = int64_t{96} << 30,
                                .capability = 90});
      rank.gpus.peer_access.emplace_back(ranks_per_host, 1);
    }
    if (!rank.machine.cpus.empty()) {
      rank.machine.gpu_driver = "550.54.15";
      rank.machine.cxi_devices = {"cxi0", "cxi1"};
      rank.machine.fabric_ports = {{"hsn0", "ACTIVE", "200 Gb/sec"}, {"hsn1", "ACTIVE", "200 Gb/sec"}};
    }
  }
  return survey;
}

void set_everywhere(Survey& survey, const std::string& name, const std::string& value) {
  for (ProcessFacts& rank : survey.ranks) rank.environment[name] = value;
}

void expect_only(const std::vector<Finding>& findings, Severity severity, const testing::Matcher<std::string>& seen,
                 const testing::Matcher<std::string>& advice) {
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(base::name_of(findings[0].severity), base::name_of(severity)) << findings[0].seen;
  EXPECT_EQ(findings[0].area, Area::slingshot);
  EXPECT_THAT(findings[0].seen, seen);
  EXPECT_THAT(findings[0].advice, advice);
}

TEST(JudgeSlingshot, OtherNetworksAreNotJudged) { EXPECT_THAT(judge_slingshot(healthy_survey(2, 2)), IsEmpty()); }

TEST(JudgeSlingshot, WhatHpeRecommendsIsFine) {
  const Survey survey = slingshot_survey(2, 2);
  expect_only(judge_slingshot(survey), Severity::ok, AllOf(HasSubstr("cxi0, cxi1"), HasSubstr("libnccl-net.so")), "");
  for (const Finding& finding : judge(survey)) EXPECT_EQ(finding.severity, Severity::ok) << finding.seen;
}

TEST(JudgeSlingshot, EachVariableThatIsMissingIsAFinding) {
  for (const auto& [name, severity] :
       {std::pair("FI_MR_CACHE_MONITOR", Severity::warning),
        std::pair("FI_CXI_DISABLE_HOST_REGISTER", Severity::warning),
        std::pair("FI_CXI_RX_MATCH_MODE", Severity::warning), std::pair("FI_CXI_DEFAULT_CQ_SIZE", Severity::note),
        std::pair("FI_CXI_DEFAULT_TX_SIZE", Severity::note), std::pair("FI_CXI_RDZV_PROTO", Severity::note),
        std::pair("NCCL_SOCKET_IFNAME", Severity::note), std::pair("NCCL_NET_GDR_LEVEL", Severity::note),
        std::pair("NCCL_CROSS_NIC", Severity::note), std::pair("NCCL_NET", Severity::note)}) {
    SCOPED_TRACE(name);
    expect_only(judge_slingshot(slingshot_survey(2, 2, name)), severity, std::string(name) + " is not set",
                HasSubstr("set it to "));
  }
}

TEST(JudgeSlingshot, ValuesThatDoNotFitAreShown) {
  for (const auto& [name, value, fits] : {std::tuple("FI_MR_CACHE_MONITOR", "memhooks", false),
                                          std::tuple("FI_MR_CACHE_MONITOR", "kdreg2", true),
                                          std::tuple("FI_CXI_DISABLE_HOST_REGISTER", "0", false),
                                          std::tuple("FI_CXI_DEFAULT_CQ_SIZE", "32768", false),
                                          std::tuple("FI_CXI_DEFAULT_CQ_SIZE", "262144", true),
                                          std::tuple("FI_CXI_RX_MATCH_MODE", "hardware", false),
                                          std::tuple("FI_CXI_RX_MATCH_MODE", "software", true),
                                          std::tuple("NCCL_SOCKET_IFNAME", "eth0", false),
                                          std::tuple("NCCL_SOCKET_IFNAME", "hsn", true),
                                          std::tuple("NCCL_SOCKET_IFNAME", "=hsn0", true),
                                          std::tuple("NCCL_SOCKET_IFNAME", "^hsn", false),
                                          std::tuple("NCCL_SOCKET_IFNAME", "^lo,hsn1", false),
                                          std::tuple("NCCL_NET_GDR_LEVEL", "LOC", false),
                                          std::tuple("NCCL_NET_GDR_LEVEL", "0", false),
                                          std::tuple("NCCL_NET_GDR_LEVEL", "SYS", true),
                                          std::tuple("NCCL_NET_GDR_LEVEL", "3", true),
                                          std::tuple("FI_PROVIDER", "tcp", false),
                                          std::tuple("FI_PROVIDER", "cxi", true),
                                          std::tuple("FI_PROVIDER", "^cxi", false),
                                          std::tuple("FI_PROVIDER", "^tcp", true),
                                          std::tuple("FI_PROVIDER", "lnx", true),
                                          std::tuple("MPICH_GPU_SUPPORT_ENABLED", "1", true),
                                          std::tuple("MPICH_GPU_SUPPORT_ENABLED", "0", true),
                                          std::tuple("NCCL_NET", "socket", false),
                                          std::tuple("NCCL_NET", "Libfabric", true)}) {
    SCOPED_TRACE(std::string(name) + "=" + value);
    Survey survey = slingshot_survey(2, 2);
    set_everywhere(survey, name, value);
    const auto findings = judge_slingshot(survey);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings[0].severity == Severity::ok, fits) << findings[0].seen;
    EXPECT_EQ(findings[0].seen.find(std::string(name) + " is ") == 0, !fits) << findings[0].seen;
  }
}

TEST(JudgeSlingshot, RanksThatDifferAreNamed) {
  Survey survey = slingshot_survey(2, 2);
  survey.ranks[3].environment["FI_MR_CACHE_MONITOR"] = "memhooks";
  expect_only(judge_slingshot(survey), Severity::warning, "rank 3 on node01: FI_MR_CACHE_MONITOR is memhooks",
              HasSubstr("NCCL may hang"));
}

TEST(JudgeSlingshot, NcclsFilesCountWhereTheEnvironmentIsSilent) {
  Survey survey = slingshot_survey(2, 2, "NCCL_CROSS_NIC");
  for (ProcessFacts& rank : survey.ranks) rank.nccl_file = {{"NCCL_CROSS_NIC", "1"}, {"NCCL_SOCKET_IFNAME", "eth0"}};
  EXPECT_EQ(judge_slingshot(survey)[0].severity, Severity::ok);
}

TEST(JudgeSlingshot, WithoutItsPluginNcclSpeaksTcpOrEnds) {
  Survey survey = slingshot_survey(2, 2, "NCCL_NET");
  for (ProcessFacts& rank : survey.ranks) rank.nccl_plugin = "";
  expect_only(judge_slingshot(survey), Severity::warning, "NCCL finds no network plugin (libnccl-net.so)",
              HasSubstr("speaks TCP over Slingshot"));
  set_everywhere(survey, "NCCL_NET_PLUGIN", "ofi");
  set_everywhere(survey, "NCCL_NET", "AWS Libfabric");
  expect_only(judge_slingshot(survey), Severity::problem, HasSubstr("libnccl-net-ofi.so"), HasSubstr("NCCL ends"));
  EXPECT_EQ(exit_code_of(judge(survey)), base::ExitCode::communication);
  survey = slingshot_survey(2, 2, "NCCL_NET");
  set_everywhere(survey, "NCCL_NET_PLUGIN", "none");
  for (ProcessFacts& rank : survey.ranks) rank.nccl_plugin = "";
  expect_only(judge_slingshot(survey), Severity::warning, "NCCL_NET_PLUGIN is none", HasSubstr("speaks TCP"));
}

TEST(JudgeSlingshot, WhereNcclUsesNoNetworkItsSettingsAreNotJudged) {
  Survey survey = slingshot_survey(1, 4, "FI_MR_CACHE_MONITOR");
  expect_only(judge_slingshot(survey), Severity::note, "NCCL_NET is AWS Libfabric", HasSubstr("unset it for one host"));
  survey = slingshot_survey(1, 4, "NCCL_NET");
  expect_only(judge_slingshot(survey), Severity::ok, HasSubstr("one host"), "");
  survey = slingshot_survey(2, 2, "FI_MR_CACHE_MONITOR");
  for (ProcessFacts& rank : survey.ranks) rank.gpus = {};
  expect_only(judge_slingshot(survey), Severity::ok, HasSubstr("no GPUs"), "");
}

TEST(JudgeSlingshot, OneAdapterHasNoRingsToCross) {
  Survey survey = slingshot_survey(2, 2, "NCCL_CROSS_NIC");
  for (ProcessFacts& rank : survey.ranks)
    rank.machine.cxi_devices.resize(std::min<std::size_t>(rank.machine.cxi_devices.size(), 1));
  EXPECT_EQ(judge_slingshot(survey)[0].severity, Severity::ok);
}

TEST(JudgeSlingshot, AMessageThatTakesTcpsTimeIsSeen) {
  Survey survey = slingshot_survey(2, 2);
  survey.links[0].latency_s = 60e-6;
  const auto findings = judge_links(survey);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].seen, HasSubstr("though there is an active hsn0 adapter"));
  EXPECT_THAT(findings[0].advice, HasSubstr("cxi"));
}

}  // namespace
}  // namespace ddpm::doctor
