// What a proposal for computing time says of runs, and Slurm's account of their jobs.
#include "report/proposal.h"

#include <gtest/gtest.h>

#include "report/charts.h"

namespace ddpm::report {
namespace {

struct TestedRun {
  RunRecord record;
  Measures measures;
  Account account;
};

/// A run on `cpus` cores, or GPUs, at so many images per second.
TestedRun run_on(int64_t ranks, int64_t cpus, int64_t devices, double rate) {
  TestedRun run;
  run.record.settings = {{"batch.global_size", "32"}, {"model.sample_size", "[32, 32]"}};
  run.record.usage = {{.ranks = ranks,
                       .device = devices > 0 ? "cuda" : "cpu",
                       .device_name = devices > 0 ? "H100" : "EPYC",
                       .devices = devices,
                       .cpus = cpus}};
  run.measures.images_per_second = rate;
  run.measures.step = 100;
  run.account = {.starts = 1, .seconds = 3600.0, .core_seconds = 3600.0 * static_cast<double>(cpus)};
  return run;
}

Proposal proposal_of(const std::vector<TestedRun>& runs) {
  std::vector<ProposalRun> all;
  all.reserve(runs.size());
  for (const TestedRun& run : runs) all.push_back({run.record, run.measures, run.account});
  return propose(all, {.images = 1'000'000});
}

TEST(Proposal, EfficiencyIsPerCoreOrGpuAndNotPerRank) {
  const auto equal = proposal_of({run_on(1, 8, 0, 100.0), run_on(8, 8, 0, 100.0)});
  EXPECT_FALSE(equal.efficiency) << equal.text;  // eight cores each
  const auto more = proposal_of({run_on(1, 1, 0, 20.0), run_on(1, 8, 0, 120.0)});
  ASSERT_TRUE(more.efficiency);
  EXPECT_NEAR(more.efficiency->share, 0.75, 1e-12);
  EXPECT_NE(more.text.find("From 1 CPU core to 8 CPU cores the parallel efficiency is 75 %"), std::string::npos)
      << more.text;
  const auto mixed = proposal_of({run_on(2, 2, 2, 1000.0), run_on(8, 8, 0, 100.0)});
  EXPECT_FALSE(mixed.efficiency) << mixed.text;
  EXPECT_NE(mixed.text.find("On 2 GPUs of 1 node (H100)"), std::string::npos) << mixed.text;
}

TEST(Proposal, EnergyIsThatOfTheTimeInWhichItWasMeasured) {
  std::vector<TestedRun> runs = {run_on(1, 2, 0, 10.0), run_on(1, 2, 0, 10.0)};
  runs[1].account.joules = 3.6e6;
  runs[1].account.measured_seconds = 3600.0;
  runs[1].account.energy_source = "RAPL";
  EXPECT_NE(
      proposal_of(runs).text.find("they have used 4 core-hours, and 1 kWh as measured by RAPL in 50 % of that time"),
      std::string::npos)
      << proposal_of(runs).text;
  const std::string one = proposal_of({runs[1]}).text;
  EXPECT_NE(one.find("it has used 2 core-hours, and 1 kWh as measured by RAPL."), std::string::npos) << one;
}

TEST(Proposal, EnergyOfHostsIsNotThatOfTheirGpus) {
  for (const auto& [source, whole] : {std::pair("RAPL", false),
                                      {"RAPL + NVML", true},
                                      {"pm_counters", true},
                                      {"RAPL + NVML, pm_counters", true},
                                      {"RAPL, RAPL + NVML", false}}) {
    TestedRun run = run_on(2, 2, 2, 1000.0);
    run.record.usage[0].seconds = 100.0;
    run.record.usage[0].to = 10;
    run.record.usage[0].joules = 3.6e6;
    run.record.usage[0].energy_source = source;
    run.account = account_of(run.record);
    const Proposal proposal = proposal_of({run});
    EXPECT_EQ(proposal.kwh.has_value(), whole) << source;
    EXPECT_EQ(proposal.text.find(", without GPUs") == std::string::npos, whole) << proposal.text;
  }
}

TEST(Proposal, ASpeedIsToldAlsoWhereTheHardwareIsNotKnown) {
  TestedRun run = run_on(1, 2, 0, 887.0);
  run.record.usage.clear();
  const std::string text = proposal_of({run}).text;
  EXPECT_NE(text.find("On hardware that was not recorded, 887 images were trained per second."), std::string::npos)
      << text;
  run.measures.images_per_second.reset();
  EXPECT_NE(proposal_of({run}).text.find(" Its speed is not known."), std::string::npos) << proposal_of({run}).text;
}

TEST(Account, AStartThatTrainsHasUsedTheTimeUpToNow) {
  TestedRun run = run_on(1, 4, 0, 10.0);
  run.record.usage[0].time = 1000.0;
  run.record.usage[0].joules = 7.0;
  run.record.metrics.resize(1);
  run.record.metrics.back().step = 117;
  const Account account = account_of(run.record, 1060.0);
  EXPECT_EQ(account.seconds, 60.0);
  EXPECT_EQ(account.core_seconds, 240.0);
  EXPECT_EQ(account.images, 117 * 32);
  EXPECT_EQ(account.measured_seconds, 0.0);
  EXPECT_EQ(counted_line(run.record, 0, 1060.0).to, 117);
  EXPECT_EQ(account_of(run.record).seconds, 0.0);
  run.record.usage[0].event = observe::UsageEvent::end;
  EXPECT_EQ(account_of(run.record, 1060.0).seconds, 0.0);
}

TEST(Charts, LossesThatCannotBeComparedAreMarked) {
  std::vector<RunRecord> runs = {run_on(1, 1, 0, 1.0).record, run_on(1, 1, 0, 1.0).record};
  for (RunRecord& run : runs) {
    run.metrics.resize(1);
    run.metrics.back() = {.step = 1, .loss = 0.5, .learning_rate = 1e-3, .validation_loss = 0.5};
    run.settings.push_back({"diffusion.formulation", "\"ddpm\""});
    run.settings.push_back({"diffusion.clip_sample", "true"});
  }
  const auto note_of = [&](const std::string& title) {
    for (const Chart& chart : charts_of(runs)) {
      if (chart.title == title) return chart.note;
    }
    return std::string("no such chart");
  };
  runs[1].settings.back().value = "false";
  EXPECT_EQ(note_of("Validation loss"), "");
  runs[0].usage[0].validation = "a";
  runs[1].usage[0].validation = "b";
  EXPECT_EQ(note_of("Validation loss"), "not comparable, since the runs differ in the images that they validated on");
  EXPECT_EQ(note_of("Training loss").find("not comparable"), std::string::npos);
  runs[1].settings[runs[1].settings.size() - 2].value = "\"edm\"";
  EXPECT_NE(note_of("Training loss").find("; not comparable, since the runs differ in diffusion.formulation"),
            std::string::npos)
      << note_of("Training loss");
  EXPECT_EQ(note_of("Learning rate"), "");
}

TEST(Proposal, RunsOnOtherWindowsDoOtherWork) {
  std::vector<TestedRun> runs = {run_on(1, 1, 0, 20.0), run_on(1, 8, 0, 120.0)};
  for (TestedRun& run : runs) run.record.settings.push_back({"data.patch", "[64, 64]"});
  EXPECT_TRUE(proposal_of(runs).efficiency);
  runs[1].record.settings.back().value = "[16, 16]";
  EXPECT_FALSE(proposal_of(runs).efficiency);
}

// What `sacct --noheader --parsable2 --duplicates` writes of a job that was requeued once.
TEST(Slurm, AJobIsTheSumOfItsStarts) {
  const auto jobs = parse_sacct(
      "17|100|800|\n"
      "17.batch|100|800|1200\n"
      "17.0|90|720|1500\n"
      "17|50|400|\n"
      "17.0|40|320|18446744073709551614\n"
      "18_2|10|20|7000\n"
      "18_2.batch|10|20|5000\n"
      "not a job|1|1|1\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].job, "17");
  EXPECT_EQ(jobs[0].seconds, 150.0);
  EXPECT_EQ(jobs[0].core_seconds, 1200.0);
  EXPECT_EQ(jobs[0].joules, 1500.0);
  EXPECT_EQ(jobs[1].job, "18_2");
  EXPECT_EQ(jobs[1].joules, 7000.0);
  EXPECT_TRUE(parse_sacct("").empty());
}

}  // namespace
}  // namespace ddpm::report
