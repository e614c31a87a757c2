#include "observe/usage.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpm::observe {
namespace {

UsageLine example() {
  return {.start = "17-ab",
          .event = UsageEvent::checkpoint,
          .time = 1.7e9,
          .host = "node \"01\"",
          .nodes = 2,
          .ranks = 8,
          .device = "cuda",
          .device_name = "A100",
          .devices = 8,
          .cpus = 64,
          .job = "4711",
          .from = 100,
          .to = 250,
          .total = 1000,
          .seconds = 60.5,
          .core_seconds = 3872.0,
          .device_seconds = 484.0,
          .joules = 1.25e5,
          .energy_source = "RAPL + NVML",
          .images = "abc",
          .validation = "64 images of def"};
}

TEST(Usage, ALineIsReadAsItWasWritten) {
  const UsageLine read = parse_usage_line(to_json_line(example()), "usage.jsonl, line 1");
  EXPECT_EQ(to_json_line(read), to_json_line(example()));
  EXPECT_EQ(read.host, "node \"01\"");
  EXPECT_EQ(read.event, UsageEvent::checkpoint);
  EXPECT_EQ(read.joules, 1.25e5);
  EXPECT_EQ(read.images, "abc");
  EXPECT_EQ(read.validation, "64 images of def");
}

TEST(Usage, ALaterFormatIsNamedEvenWhereItsKeysAreOthers) {
  try {
    parse_usage_line("{\"format\":2,\"begun\":\"today\"}", "usage.jsonl, line 7");
    ADD_FAILURE();
  } catch (const base::OutputError& error) {
    EXPECT_STREQ(error.what(), "usage.jsonl, line 7: format 2, this program reads 1: a newer ddpm wrote it");
  }
}

TEST(Usage, EnergyThatNobodyCountedIsNull) {
  UsageLine line = example();
  line.joules.reset();
  EXPECT_THAT(to_json_line(line), testing::HasSubstr("\"joules\":null"));
  EXPECT_EQ(parse_usage_line(to_json_line(line), "here").joules, std::nullopt);
}

TEST(Usage, OtherLinesAreRefusedWithTheirPlace) {
  const std::string good = to_json_line(example());
  const auto with = [&](const std::string& what, const std::string& other) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), other);
  };
  for (const std::string& bad :
       {std::string("{}"), std::string("not JSON"), good.substr(0, good.size() / 2),
        with("\"format\":1", "\"format\":2"), with("checkpoint", "holiday"), with("\"ranks\":8", "\"ranks\":0"),
        with("\"seconds\":60.5", "\"seconds\":-1.0"), with("\"cpus\":64", "\"cpus\":\"64\"")}) {
    try {
      parse_usage_line(bad, "usage.jsonl, line 7");
      ADD_FAILURE() << bad;
    } catch (const base::OutputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("usage.jsonl, line 7")) << bad;
    }
  }
}

}  // namespace
}  // namespace ddpm::observe
