#include "observe/csv_log.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "observe/metrics_example.h"
#include "observe/temporary_folder.h"

namespace ddpm::observe {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using CsvLogTest = TemporaryFolderTest;

/// Lines of the table, without their ends.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  EXPECT_EQ(begin, text.size()) << "a half-written line";
  return lines;
}

TEST_F(CsvLogTest, HasAColumnForEachNumberOfALine) {
  CsvLog log(*files_, file("m.csv"));
  StepMetrics metrics = metrics_of(3);
  metrics.own = {{"a,b", 0.25}};
  log.append(metrics);
  const auto lines = lines_of(read(file("m.csv")));
  ASSERT_EQ(lines.size(), 2);
  EXPECT_THAT(lines[0], StartsWith("step,images_seen,loss,"));
  EXPECT_THAT(lines[0], HasSubstr(",loss_quartiles_1,loss_quartiles_2,loss_quartiles_3,loss_quartiles_4,\"a,b\""));
  EXPECT_THAT(lines[1], StartsWith("3,96,0.5,"));
  EXPECT_THAT(lines[1], testing::EndsWith(",0.9,,0.2,0.1,0.25"));
}

TEST_F(CsvLogTest, AColumnThatComesLaterIsEmptyBefore) {
  CsvLog log(*files_, file("m.csv"));
  log.append(metrics_of(1));
  StepMetrics validated = metrics_of(2);
  validated.validation_loss_levels = {{"t_62", 0.5}, {"t_187", 0.25}};
  log.append(validated);
  log.append(metrics_of(3));
  const auto lines = lines_of(read(file("m.csv")));
  ASSERT_EQ(lines.size(), 4);
  EXPECT_THAT(lines[0], testing::EndsWith(",validation_loss_levels.t_62,validation_loss_levels.t_187"));
  EXPECT_THAT(lines[1], testing::EndsWith(",,"));
  EXPECT_THAT(lines[2], testing::EndsWith(",0.5,0.25"));
  EXPECT_THAT(lines[3], testing::EndsWith(",,"));
  for (const std::string& line : lines) EXPECT_EQ(std::ranges::count(line, ','), std::ranges::count(lines[0], ','));
}

TEST_F(CsvLogTest, ARunThatContinuesCutsItsTableBack) {
  CsvLog log(*files_, file("m.csv"));
  for (const int64_t step : {1, 2, 3, 4}) log.append(metrics_of(step));
  files_->open_append(file("m.csv"))->write("5,16");  // killed as it wrote
  CsvLog later(*files_, file("m.csv"));
  later.begin(std::vector{metrics_of(1), metrics_of(2)});
  later.append(metrics_of(3));
  const auto lines = lines_of(read(file("m.csv")));
  ASSERT_EQ(lines.size(), 4);
  for (const std::size_t row : {1U, 2U, 3U}) EXPECT_THAT(lines[row], StartsWith(fmt::format("{},", row)));
}

TEST_F(CsvLogTest, ATableWithAGapIsMadeAnew) {
  CsvLog log(*files_, file("m.csv"));
  for (const int64_t step : {1, 3}) log.append(metrics_of(step));
  CsvLog later(*files_, file("m.csv"));
  later.begin(std::vector{metrics_of(1), metrics_of(2), metrics_of(3)});
  later.append(metrics_of(4));
  const auto lines = lines_of(read(file("m.csv")));
  ASSERT_EQ(lines.size(), 5);
  for (const std::size_t row : {1U, 2U, 3U, 4U}) EXPECT_THAT(lines[row], StartsWith(fmt::format("{},", row)));
}

TEST_F(CsvLogTest, RowsOfAHistoryThatWasGivenUpGo) {
  CsvLog log(*files_, file("m.csv"));
  for (const int64_t step : {1, 2, 3}) log.append(metrics_of(step));
  std::vector rows = {metrics_of(1), metrics_of(2)};
  rows[1].loss = 7.25;  // what metrics.jsonl has of another history, of the same steps
  CsvLog later(*files_, file("m.csv"));
  later.begin(rows);
  later.append(metrics_of(3));
  const auto lines = lines_of(read(file("m.csv")));
  ASSERT_EQ(lines.size(), 4);
  EXPECT_THAT(lines[2], StartsWith("2,64,7.25,"));
  later.begin({});
  EXPECT_FALSE(files_->exists(file("m.csv")));
}

TEST_F(CsvLogTest, ATableThatWasRemovedOrReplacedIsMadeAnew) {
  const std::vector rows = {metrics_of(1), metrics_of(2)};
  CsvLog log(*files_, file("m.csv"));
  for (const bool replaced : {false, true}) {
    log.begin({});
    for (const StepMetrics& row : rows) log.append(row);
    files_->remove(file("m.csv"));
    if (replaced) write(file("m.csv"), "loss,step\n0.5,1\n");
    ASSERT_TRUE(log.displaced());
    log.begin(rows);
    log.append(metrics_of(3));
    StepMetrics validated = metrics_of(4);
    validated.validation_loss = 0.25;
    log.append(validated);
    const auto lines = lines_of(read(file("m.csv")));
    ASSERT_EQ(lines.size(), 5);
    EXPECT_THAT(lines[0], StartsWith("step,images_seen,"));
    for (const std::size_t row : {1U, 2U, 3U, 4U}) EXPECT_THAT(lines[row], StartsWith(fmt::format("{},", row)));
  }
}

TEST_F(CsvLogTest, ATableThatBeginsLaterHasTheRowsBefore) {
  CsvLog log(*files_, file("m.csv"));
  log.begin(std::vector{metrics_of(1), metrics_of(2)});
  log.append(metrics_of(3));
  EXPECT_EQ(lines_of(read(file("m.csv"))).size(), 4);
}

}  // namespace
}  // namespace ddpm::observe
