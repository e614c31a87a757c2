#include "observe/logging_config.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/resolve.h"

namespace ddpm::observe {
namespace {

/// The [logging] section after `toml` was applied to the defaults.
LoggingConfig resolved(const char* toml) {
  LoggingConfig config;
  config::Schema schema;
  declare_logging(schema, config);
  config::apply(schema, config::parse_toml(toml, "test.toml"), "test.toml");
  return config;
}

TEST(LoggingConfig, EveryKeyIsRead) {
  const LoggingConfig config = resolved(
      "[logging]\nevery_steps = 3\ntensorboard = false\nprogress = \"lines\"\n"
      "csv = true\nnorms = true\nrank_files = true\n");
  EXPECT_EQ(config.every_steps, 3);
  EXPECT_FALSE(config.tensorboard);
  EXPECT_TRUE(config.csv && config.norms && config.rank_files);
  EXPECT_EQ(config.progress, ProgressChoice::lines);
}

TEST(LoggingConfig, DefaultsAreThePublishedOnes) {
  const LoggingConfig config = resolved("");
  EXPECT_EQ(config.every_steps, 10);
  EXPECT_TRUE(config.tensorboard);
  EXPECT_FALSE(config.csv || config.norms || config.rank_files);
  EXPECT_EQ(config.progress, ProgressChoice::automatic);
}

TEST(LoggingConfig, ValuesThatMakeNoSenseAreRefused) {
  EXPECT_THROW(resolved("[logging]\nevery_steps = 0\n"), base::ConfigError);
  EXPECT_THROW(resolved("[logging]\nprogress = \"loud\"\n"), base::ConfigError);
}

}  // namespace
}  // namespace ddpm::observe
