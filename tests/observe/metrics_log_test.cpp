#include "observe/metrics_log.h"

#include <limits>

#include <gmock/gmock.h>

#include "base/json.h"
#include "observe/temporary_folder.h"

namespace ddpm::observe {
namespace {

using MetricsLogTest = TemporaryFolderTest;

StepMetrics metrics_of(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.images_seen = 32 * step;
  m.loss = 0.5;
  m.loss_quartiles = {0.9, std::numeric_limits<double>::quiet_NaN(), 0.2, 0.1};
  return m;
}

TEST(ToJsonLine, HasEveryPromisedKey) {
  const auto object = base::Json::parse(to_json_line(metrics_of(3)));
  for (const char* key :
       {"step", "images_seen", "loss", "learning_rate", "grad_norm", "loss_scale", "images_per_second",
        "seconds_per_step", "data_wait_fraction", "comm_wait_fraction", "peak_memory_bytes", "loss_quartiles"}) {
    EXPECT_TRUE(object.contains(key)) << key;
  }
  EXPECT_EQ(object["step"], 3);
  EXPECT_EQ(object["images_seen"], 96);
  EXPECT_EQ(object["loss"], 0.5);
}

TEST(ToJsonLine, WritesAnAbsentValueAsNull) {
  const auto object = base::Json::parse(to_json_line(metrics_of(1)));
  EXPECT_TRUE(object["loss_quartiles"][1].is_null());
  EXPECT_EQ(object["loss_quartiles"][3], 0.1);
}

TEST(ToJsonLine, OnlyAValidatedStepHasAValidationLoss) {
  StepMetrics m = metrics_of(1);
  EXPECT_FALSE(base::Json::parse(to_json_line(m)).contains("validation_loss"));
  m.validation_loss = 0.25;
  EXPECT_EQ(base::Json::parse(to_json_line(m))["validation_loss"], 0.25);
  m.validation_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(base::Json::parse(to_json_line(m)).at("validation_loss").is_null());
}

TEST(ToJsonLine, KeepsEveryBitOfADouble) {
  StepMetrics m = metrics_of(1);
  m.loss = 0.1 + 0.2;
  EXPECT_EQ(base::Json::parse(to_json_line(m))["loss"].get<double>(), 0.1 + 0.2);
}

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

}  // namespace
}  // namespace ddpm::observe
