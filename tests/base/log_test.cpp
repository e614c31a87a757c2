#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/host_name.h"

namespace ddpm::base {
namespace {

std::string said_by(const Logger& logger) {
  testing::internal::CaptureStderr();
  logger.info("step {}", 1);
  logger.warn("disk {} % full", 97);
  logger.error("{} is gone", "it");
  return testing::internal::GetCapturedStderr();
}

TEST(Logger, ASingleRankNamesNoRank) {
  EXPECT_EQ(said_by(Logger(0, 1)), "ddpm: step 1\nddpm: warning: disk 97 % full\nddpm: error: it is gone\n");
}

TEST(Logger, OtherRanksSpeakOnlyOfErrorsAndSayWhoTheyAre) {
  const std::string name = host_name();
  EXPECT_EQ(said_by(Logger(3, 4)), "ddpm: error: rank 3 on " + name + ": it is gone\n");
  EXPECT_THAT(said_by(Logger(0, 4)), testing::EndsWith("ddpm: error: rank 0 on " + name + ": it is gone\n"));
}

TEST(Logger, ARanksNodeHasTheNameThatIsGiven) {
  EXPECT_EQ(said_by(Logger(3, 4, "nid000007")), "ddpm: error: rank 3 on nid000007: it is gone\n");
}

TEST(Logger, AnErrorIsOneLineWhateverItQuotes) {
  testing::internal::CaptureStderr();
  Logger(0, 1).error("{}: no such file", "first\nddpm: second");
  Logger(0, 1).warn("{} is skipped", "a\nb.png");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ddpm: error: first\\nddpm: second: no such file\nddpm: warning: a\\nb.png is skipped\n");
}

// A name in a hostile file must not move the cursor, recolour the terminal or forge a line's beginning.
TEST(Logger, WhatATerminalWouldObeyIsSpeltOut) {
  testing::internal::CaptureStderr();
  Logger(0, 1).error("tensor '{}'", std::string("a\x1b[2J\rb\0c\x7f\xc2\x9b ä", 15));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "ddpm: error: tensor 'a\\x1b[2J\\x0db\\x00c\\x7f\\x9b ä'\n");
}

}  // namespace
}  // namespace ddpm::base
