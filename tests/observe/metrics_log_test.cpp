#include "observe/metrics_log.h"

#include <gmock/gmock.h>

#include "observe/metrics_example.h"
#include "observe/temporary_folder.h"

namespace ddpm::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using MetricsLogTest = TemporaryFolderTest;

TEST_F(MetricsLogTest, ALineCanBeReadAsSoonAsItWasAppended) {
  MetricsLog log(*files_, file("metrics.jsonl"));
  log.append(metrics_of(1));
  EXPECT_EQ(read(file("metrics.jsonl")), to_json_line(metrics_of(1)) + "\n");
}

TEST_F(MetricsLogTest, CreatesNothingBeforeTheFirstLine) {
  MetricsLog log(*files_, file("metrics.jsonl"));
  log.sync();
  EXPECT_EQ(file_count(), 0);
}

TEST_F(MetricsLogTest, ASecondProcessGoesOnAtTheEnd) {
  MetricsLog(*files_, file("metrics.jsonl")).append(metrics_of(1));
  MetricsLog(*files_, file("metrics.jsonl")).append(metrics_of(2));
  EXPECT_EQ(read(file("metrics.jsonl")), to_json_line(metrics_of(1)) + "\n" + to_json_line(metrics_of(2)) + "\n");
}

TEST_F(MetricsLogTest, NoticesThatItsFileWasRemovedOrReplaced) {
  const base::Path path = file("metrics.jsonl");
  MetricsLog log(*files_, path);
  EXPECT_FALSE(log.displaced()) << "nothing was written yet";
  log.append(metrics_of(1));
  EXPECT_FALSE(log.displaced());
  files_->remove(path);
  EXPECT_TRUE(log.displaced());
  log.reopen();
  EXPECT_FALSE(log.displaced());
  log.append(metrics_of(2));
  EXPECT_EQ(read(path), to_json_line(metrics_of(2)) + "\n");

  std::filesystem::rename(path, file("moved"));
  std::filesystem::copy_file(file("moved"), path);
  EXPECT_TRUE(log.displaced()) << "a copy is another file";
  log.reopen();
  log.append(metrics_of(3));
  EXPECT_EQ(read(path), to_json_line(metrics_of(2)) + "\n" + to_json_line(metrics_of(3)) + "\n");
}

class CutBackTest : public TemporaryFolderTest {
 protected:
  /// What is left of `text` after a resume from `step`.
  std::string cut(const std::string& text, int64_t step) {
    write(file("metrics.jsonl"), text);
    cut_back(*files_, file("metrics.jsonl"), step);
    EXPECT_EQ(file_count(), 1) << "a temporary file was left";
    return read(file("metrics.jsonl"));
  }
};

TEST_F(CutBackTest, RemovesLaterSteps) {
  EXPECT_EQ(cut("{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n", 2), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(cut("{\"step\":1}\n{\"step\":2}\n", 0), "");
}

TEST_F(CutBackTest, RemovesAHalfWrittenLastLine) {
  EXPECT_EQ(cut("{\"step\":1}\n{\"step\":2,\"lo", 9), "{\"step\":1}\n");
  EXPECT_EQ(cut("{\"step\":1}\n{\"step\":2}", 9), "{\"step\":1}\n")
      << "without its end a line is not known to be whole";
}

TEST_F(CutBackTest, RemovesLinesThatAreNotMetrics) {
  EXPECT_EQ(cut("{\"step\":1}\n\n[1]\n{\"step\":\"2\"}\n{\"loss\":1}\nstep 3\n{\"step\":4}\n", 9),
            "{\"step\":1}\n{\"step\":4}\n");
}

TEST_F(CutBackTest, LeavesNoStepTwice) {
  EXPECT_EQ(cut("{\"step\":1}\n{\"step\":2,\"a\":1}\n{\"step\":2,\"a\":2}\n{\"step\":1}\n{\"step\":3}\n", 9),
            "{\"step\":1}\n{\"step\":2,\"a\":1}\n{\"step\":3}\n");
}

TEST_F(CutBackTest, ALaterStepHidesNoEarlierOne) {
  EXPECT_EQ(cut("{\"step\":1}\n{\"step\":9}\n{\"step\":2}\n", 5), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(CutBackTest, DoesNotTouchAFileThatIsRight) {
  write(file("metrics.jsonl"), "{\"step\":1}\n");
  const auto before = std::filesystem::last_write_time(file("metrics.jsonl"));
  std::filesystem::last_write_time(file("metrics.jsonl"), before - std::chrono::hours(1));
  cut_back(*files_, file("metrics.jsonl"), 1);
  EXPECT_EQ(std::filesystem::last_write_time(file("metrics.jsonl")), before - std::chrono::hours(1));
}

TEST_F(CutBackTest, AnAbsentFileStaysAbsent) {
  cut_back(*files_, file("metrics.jsonl"), 1);
  EXPECT_EQ(file_count(), 0);
}

class ReadMetricsTest : public TemporaryFolderTest {
 protected:
  /// The steps of a file that holds `text`.
  std::vector<int64_t> steps(const std::string& text) {
    write(file("metrics.jsonl"), text);
    std::vector<int64_t> result;
    for (const StepMetrics& one : read_metrics(*files_, file("metrics.jsonl"))) result.push_back(one.step);
    return result;
  }
};

TEST_F(ReadMetricsTest, ReadsWhatALogWrote) {
  MetricsLog log(*files_, file("metrics.jsonl"));
  for (const int64_t step : {1, 10, 20}) log.append(metrics_of(step));
  const std::vector<StepMetrics> read = read_metrics(*files_, file("metrics.jsonl"));
  ASSERT_EQ(read.size(), 3U);
  for (const StepMetrics& one : read) EXPECT_EQ(to_json_line(one), to_json_line(metrics_of(one.step)));
  EXPECT_EQ(read.back().step, 20);
}

TEST_F(ReadMetricsTest, PassesOverWhatARunThatWasKilledLeaves) {
  EXPECT_THAT(steps("{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"lo"), ElementsAre(1, 2));
  EXPECT_THAT(steps("{\"step\":1}\n{\"step\":2}"), ElementsAre(1)) << "a line without its end";
  EXPECT_THAT(steps("\n[1]\nstep 1\n{\"step\":2}\n{\"step\":2}\n{\"step\":1}\n{\"step\":3}\n"), ElementsAre(2, 3));
  EXPECT_THAT(steps(""), IsEmpty());
}

TEST_F(ReadMetricsTest, AnAbsentFileHasNoSteps) {
  EXPECT_THAT(read_metrics(*files_, file("metrics.jsonl")), IsEmpty());
}

}  // namespace
}  // namespace ddpm::observe
