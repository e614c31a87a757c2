#include "observe/metrics.h"

#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/json.h"
#include "observe/metrics_example.h"

namespace ddpm::observe {
namespace {

using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Scripts rely on these bytes, so they must not change.
TEST(ToJsonLine, IsThisLine) {
  StepMetrics m{.step = 20,
                .images_seen = 2560,
                .loss = 0.1 + 0.2,
                .learning_rate = 1e-4,
                .gradient_norm = kNaN,
                .loss_scale = 65536,
                .images_per_second = 1234.5,
                .seconds_per_step = 0.25,
                .data_wait_fraction = 0,
                .comm_wait_fraction = 0.125,
                .peak_memory_bytes = 123456789012,
                .loss_quartiles = {0.9, kNaN, 0.2, 0.1},
                .validation_loss = std::nullopt};
  const std::string line =
      R"({"step":20,"images_seen":2560,"loss":0.30000000000000004,"learning_rate":0.0001,"grad_norm":null,)"
      R"("loss_scale":65536.0,"images_per_second":1234.5,"seconds_per_step":0.25,"data_wait_fraction":0.0,)"
      R"("comm_wait_fraction":0.125,"peak_memory_bytes":123456789012,"loss_quartiles":[0.9,null,0.2,0.1])";
  EXPECT_EQ(to_json_line(m), line + "}");
  m.validation_loss = 0.25;
  EXPECT_EQ(to_json_line(m), line + R"(,"validation_loss":0.25})");
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

TEST(ParseJsonLine, ReadsBackEveryBit) {
  StepMetrics m = metrics_of(7);
  m.loss = 0.1 + 0.2;
  m.gradient_norm = 5e-324;
  for (const std::optional<double> validation :
       {std::optional<double>(), std::optional(1.0 / 3.0), std::optional(kNaN)}) {
    m.validation_loss = validation;
    const auto read = parse_json_line(to_json_line(m));
    ASSERT_TRUE(read);
    EXPECT_EQ(to_json_line(*read), to_json_line(m));
    EXPECT_EQ(read->loss, m.loss);
    EXPECT_TRUE(std::isnan(read->loss_quartiles[1]));
    EXPECT_EQ(read->validation_loss.has_value(), validation.has_value());
  }
}

TEST(ParseJsonLine, KeepsTheOrderOfNames) {
  StepMetrics metrics = metrics_of(1);
  metrics.validation_loss_levels = {{"t_62", 0.1}, {"t_187", 0.2}, {"t_1000", 0.3}};
  metrics.own = {{"mine/b", 1.0}, {"mine/a", 2.0}};
  const auto read = parse_json_line(to_json_line(metrics));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->validation_loss_levels, metrics.validation_loss_levels);
  EXPECT_EQ(read->own, metrics.own);
}

TEST(ParseJsonLine, KeepsWhatAProgramHasLoggedOfItsOwn) {
  StepMetrics m = metrics_of(3);
  m.own = {{"accuracy", 0.75}, {"val/f1", kNaN}};
  const auto read = parse_json_line(to_json_line(m));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json_line(*read), to_json_line(m));
}

TEST(OwnNames, AreNeitherKeysNorNamesOfTheirCells) {
  const std::string taken = "is a name that metrics.jsonl or metrics.csv has already";
  for (const Metric& metric : metric_table()) EXPECT_EQ(own_name_problem(metric.key), taken) << metric.key;
  StepMetrics metrics = metrics_of(1);
  metrics.validation_loss_levels = {{"t_62", 0.5}};
  metrics.gradient_norm_blocks = {{"conv_in", 0.5}};
  for (const auto& [name, text] : cells_of(metrics)) EXPECT_EQ(own_name_problem(name), taken) << name;
  for (const char* name :
       {"loss_2", "loss.conv_in", "loss_quartiles_", "loss_quartiles_0", "loss_quartiles_5", "loss_quartiles_01",
        "loss_quartiles_all", "loss_quartiles.1", "grad_norm_blocks_1", "grad_norm_blocks/conv_in"}) {
    EXPECT_EQ(own_name_problem(name), "") << name;
  }
}

// A line of a release that knows fewer or more metrics.
TEST(ParseJsonLine, WhatIsAbsentIsNotKnown) {
  const auto read = parse_json_line(R"({"step": 4, "loss": 1, "temperature": "high"})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step, 4);
  EXPECT_EQ(read->loss, 1.0);
  EXPECT_TRUE(std::isnan(read->loss_scale));
  EXPECT_TRUE(std::isnan(read->loss_quartiles[3]));
  EXPECT_EQ(read->images_seen, 0);
  EXPECT_FALSE(read->validation_loss);
  EXPECT_TRUE(read->own.empty());
}

TEST(ParseJsonLine, TakesOnlyWholeMetrics) {
  for (const std::string line :
       {"", "[1]", "step 3", R"({"step":1,"lo)", R"({"loss":1})", R"({"step":"2"})", R"({"step":1.5})",
        R"({"step":null})", R"({"step":9223372036854775808})", R"({"step":1,"loss":"low"})",
        R"({"step":1,"peak_memory_bytes":1.5})", R"({"step":1,"loss_quartiles":[1,2,3]})",
        R"({"step":1,"loss_quartiles":[1,2,3,"4"]})", R"({"step":1,"step":2})", R"({"step":1,"a":[[[[1]]]]})"}) {
    EXPECT_FALSE(parse_json_line(line)) << line;
  }
  EXPECT_FALSE(parse_json_line(R"({"step":1,"note":")" + std::string(1U << 20U, 'x') + R"("})"));
}

TEST(ParseJsonLine, TakesTheLineOfAModelOfThousandsOfBlocks) {
  StepMetrics metrics = metrics_of(1);
  for (int i = 0; i < 5000; ++i) metrics.own.emplace_back(fmt::format("down_blocks/{:04}/gradient", i), 0.5);
  const auto read = parse_json_line(to_json_line(metrics));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->own, metrics.own);
}

/// Values with long names that take about `bytes` of a line.
NamedValues values_of(std::size_t bytes) {
  NamedValues values;
  for (std::size_t i = 0; i < bytes / 1024; ++i) values.emplace_back(fmt::format("{:01000}", i), 0.12345678901234567);
  return values;
}

TEST(FitIntoLine, LeavesOutNothingThatIsReadBack) {
  StepMetrics metrics = metrics_of(1);
  metrics.own = values_of(kMostLineBytes / 2);
  metrics.gradient_norm_blocks = values_of(kMostLineBytes / 4);
  const std::string line = to_json_line(metrics);
  EXPECT_THAT(fit_into_line(metrics), testing::IsEmpty());
  EXPECT_EQ(to_json_line(metrics), line);
}

TEST(FitIntoLine, LeavesOutWhatTakesMostUntilTheLineIsReadBack) {
  StepMetrics metrics = metrics_of(7);
  metrics.own = values_of(2 * kMostLineBytes);
  metrics.validation_loss_variables = values_of(kMostLineBytes / 4);
  metrics.gradient_norm_blocks = values_of(kMostLineBytes);
  ASSERT_FALSE(parse_json_line(to_json_line(metrics)));
  EXPECT_THAT(fit_into_line(metrics), testing::ElementsAre("own", "grad_norm_blocks"));
  const auto read = parse_json_line(to_json_line(metrics));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step, 7);
  EXPECT_EQ(read->validation_loss_variables.size(), metrics.validation_loss_variables.size());
  EXPECT_EQ(to_json_line(*read), to_json_line(metrics));
}

TEST(FitIntoLine, LinesOfAboutTheMostBytesAreReadBack) {
  std::vector<bool> kept;
  for (std::size_t bytes = kMostLineBytes - 8192; bytes <= kMostLineBytes + 8192; bytes += 1024) {
    StepMetrics metrics = metrics_of(1);
    metrics.gradient_norm_blocks = values_of(bytes);
    fit_into_line(metrics);
    EXPECT_TRUE(parse_json_line(to_json_line(metrics))) << bytes;
    kept.push_back(!metrics.gradient_norm_blocks.empty());
  }
  EXPECT_TRUE(kept.front());
  EXPECT_FALSE(kept.back());
}

TEST(MetricTable, NamesEachMetricOnce) {
  std::set<std::string_view> keys;
  std::set<std::string_view> tags;
  for (const Metric& metric : metric_table()) {
    EXPECT_TRUE(keys.insert(metric.key).second) << metric.key;
    EXPECT_TRUE(metric.tag.empty() || tags.insert(metric.tag).second) << metric.tag;
    EXPECT_FALSE(metric.meaning.empty()) << metric.key;
  }
}

std::string tag_cell(const Metric& metric) {
  if (metric.tag.empty()) return "";
  if (std::holds_alternative<NamedValues StepMetrics::*>(metric.member)) return fmt::format("`{}/NAME`", metric.tag);
  if (!std::holds_alternative<std::array<double, 4> StepMetrics::*>(metric.member))
    return fmt::format("`{}`", metric.tag);
  return fmt::format("`{}_1` to `_{}`", metric.tag, StepMetrics{}.loss_quartiles.size());
}

/// The table as docs/running.md holds it.
std::string metrics_markdown() {
  std::string text = "| key | unit | in TensorBoard | meaning |\n|---|---|---|---|\n";
  for (const Metric& metric : metric_table()) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", metric.key, metric.unit, tag_cell(metric), metric.meaning);
  }
  return text;
}

TEST(MetricTable, IsTheTableOfTheDocumentation) {
  std::ifstream file(DDPM_DOCS "/running.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("\n\n" + metrics_markdown() + "\n")) << metrics_markdown();
}

}  // namespace
}  // namespace ddpm::observe
