// Tests the findings about links, clocks and the run folder in a spoiled survey.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/judge.h"
#include "doctor/report.h"
#include "doctor/survey_case.h"

namespace ddpm::doctor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(JudgeLinks, ASlowPairIsNamedByItsHosts) {
  Survey survey = healthy_survey(6, 2);
  for (Link& link : survey.links) {
    if (link.a == 1 && link.b == 4) link.bytes_per_second = 1e9;
  }
  expect(judge_links(survey), Severity::warning,
         AllOf(HasSubstr("node01 with node04: 2 us, 1 GB/s"), HasSubstr("10 GB/s are usual")));
}

TEST(JudgeLinks, AHostThatIsSlowToAllIsNamedInsteadOfItsPairs) {
  Survey survey = healthy_survey(6, 2);
  for (Link& link : survey.links) {
    if (link.a == 3 || link.b == 3) link.latency_s = 50e-6;
  }
  expect(judge_links(survey), Severity::warning,
         AllOf(HasSubstr("to and from node03 are slow"), Not(HasSubstr(" with "))));
}

TEST(JudgeLinks, OfThreeHostsOrFourABadOneIsFound) {
  for (const int hosts : {3, 4}) {
    for (const bool late : {true, false}) {
      Survey survey = healthy_survey(hosts, 2);
      for (Link& link : survey.links) {
        if (link.b != hosts - 1) continue;
        if (late) link.latency_s = 50e-6;
        if (!late) link.bytes_per_second = 1e9;
      }
      expect(judge_links(survey), Severity::warning,
             AllOf(HasSubstr(fmt::format("to and from node{:02} are slow", hosts - 1)), HasSubstr("2 us and 10 GB/s")));
    }
  }
}

TEST(JudgeLinks, WithTwoHostsNoneIsUsual) {
  Survey survey = healthy_survey(2, 2);
  survey.links[0].bytes_per_second = 1e6;
  EXPECT_EQ(judge_links(survey)[0].severity, Severity::ok);
}

TEST(JudgeLinks, TcpBesideAnAdapterIsSeen) {
  Survey survey = healthy_survey(2, 2);
  survey.links[0].latency_s = 40e-6;
  EXPECT_EQ(judge_links(survey)[0].severity, Severity::ok);
  survey.ranks[0].machine.fabric_ports = {{"efa_0/1", "ACTIVE", "100 Gb/sec"}};
  EXPECT_EQ(judge_links(survey)[0].severity, Severity::ok);
  survey.ranks[0].machine.fabric_ports = {{"mlx5_0/1", "DOWN", ""}, {"mlx5_1/1", "ACTIVE", "200 Gb/sec"}};
  expect(judge_links(survey), Severity::warning, HasSubstr("40 us, though there is an active mlx5_1/1"));
}

TEST(JudgeLinks, ASlowHostInItselfIsNamed) {
  Survey survey = healthy_survey(4, 2);
  survey.inside[2].bytes_per_second = 1e9;
  expect(judge_links(survey), Severity::warning,
         AllOf(HasSubstr("between ranks of one host are slow"), HasSubstr("on node02")));
}

TEST(JudgeClocks, AnOffsetCountsBeyondWhatIsKnownOfIt) {
  Survey survey = healthy_survey(3, 1);
  survey.clocks[2] = {-2.5, 0.01};
  expect(judge_clocks(survey), Severity::warning,
         HasSubstr("the clock of node02 is up to 2.5 s behind that of node00"));
  survey.clocks[2] = {-2.5, 2.0};  // the answer took four seconds: it may be right
  EXPECT_EQ(judge_clocks(survey)[0].severity, Severity::ok);
}

TEST(JudgeFolder, OneThatIsNotSharedIsAProblem) {
  Survey survey = healthy_survey(3, 2);
  survey.folder.visits[1] = FolderVisit();
  survey.folder.winners = {};
  expect(judge_folder(survey), Severity::problem, HasSubstr("runs/x is not the folder that node00 has on node01"));
}

TEST(JudgeFolder, AnErrorIsOneFindingForAllHostsThatHaveIt) {
  Survey survey = healthy_survey(3, 2);
  survey.folder.winners = {};
  for (const std::size_t visit : {1U, 2U})
    survey.folder.visits[visit].error = "runs/x: cannot write: Disk quota exceeded";
  expect(judge_folder(survey), Severity::problem, HasSubstr("Disk quota exceeded on node[01-02]"));
  EXPECT_EQ(exit_code_of(judge_folder(survey)), base::ExitCode::output);
}

TEST(JudgeFolder, RenamesThatAreSeenLateOrNever) {
  Survey survey = healthy_survey(3, 2);
  survey.folder.visits[1].seen_s = 3.2;
  expect(judge_folder(survey), Severity::warning, HasSubstr("a renamed file was seen after 3 s on node01"));
  survey.folder.visits[1].seen_s = -1.0;
  expect(judge_folder(survey), Severity::problem, HasSubstr("a renamed file was never seen on node01"));
}

TEST(JudgeFolder, TwoCreatorsOfOneFileAreAProblem) {
  for (const int64_t winners : {0, 2}) {
    Survey survey = healthy_survey(3, 2);
    survey.folder.winners[2] = winners;
    expect(judge_folder(survey), Severity::problem,
           HasSubstr(fmt::format("{} of 3 ranks created one same file", winners)));
  }
}

TEST(JudgeFolder, LocksThatDoNotExcludeAreAWarning) {
  Survey survey = healthy_survey(3, 2);
  survey.folder.visits[2].locks["fcntl"] = "does not exclude";
  expect(judge_folder(survey), Severity::warning, HasSubstr("a lock by fcntl does not exclude on node02"));

  survey = healthy_survey(3, 2);
  for (FolderVisit& visit : survey.folder.visits)
    visit.locks["flock"] = "runs/x: cannot lock by flock: No locks available";
  // Datasets and exports are kept by such locks, whatever HDF5 was told of its own.
  survey.ranks[0].environment["HDF5_USE_FILE_LOCKING"] = "FALSE";
  expect(judge_folder(survey), Severity::warning, HasSubstr("No locks available on node[00-02]"));
}

TEST(JudgeFolder, SlowHostsFullDisksAndMemoryAreSeen) {
  Survey survey = healthy_survey(5, 1);
  survey.folder.visits[3].seconds["write"] = 0.2;
  expect(judge_folder(survey), Severity::warning, AllOf(HasSubstr("writing goes"), HasSubstr("on node03")));
  survey = healthy_survey(1, 1);
  survey.folder.free_bytes = 1000;
  expect(judge_folder(survey), Severity::warning, HasSubstr("are free in runs/x"));
  survey = healthy_survey(1, 1);
  survey.folder.type = "tmpfs";
  expect(judge_folder(survey), Severity::warning, HasSubstr("lies in memory"));
}

TEST(Report, LinesAreShortAndColoursAreAskedFor) {
  Survey survey = healthy_survey(40, 4);
  survey.folder.visits[1].error = "runs/x: cannot write: Disk quota exceeded";
  survey.ranks[5].environment["NCCL_SOCKET_IFNAME"] = "a rather long value of an environment variable";
  const auto findings = judge(survey);
  const std::string text = text_of(survey, findings, false);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100U) << text.substr(begin, end - begin);
  }
  EXPECT_EQ(begin, text.size());
  EXPECT_THAT(text, AllOf(HasSubstr("node[00-39]"), HasSubstr("Disk quota"), HasSubstr("1 problem, 1 warning\n"),
                          Not(HasSubstr("\x1b["))));
  EXPECT_THAT(text_of(survey, findings, true), HasSubstr("\x1b[1;31mproblem"));
  const auto json = json_of(survey, findings);
  EXPECT_EQ(json["exit_code"], 4);
  EXPECT_EQ(json["links"].size(), 40U * 39U / 2U);
  EXPECT_EQ(json["hosts"].size(), 40U);
  EXPECT_EQ(json["ranks"].size(), 160U);
}

}  // namespace
}  // namespace ddpm::doctor
