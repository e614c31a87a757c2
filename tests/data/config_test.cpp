#include "data/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/resolve.h"

namespace ddpm::data {
namespace {

DataConfig parse(const std::string& text) {
  DataConfig c;
  config::Schema schema;
  auto section = schema.section("data", "Images", config::Identity::fixed);
  describe(section, c);
  config::apply(schema, config::parse_toml(text, "test.toml"), "test.toml");
  return c;
}

TEST(DataConfig, OneTrainingSetIsAPathOrAListOfOne) {
  EXPECT_EQ(train_path(parse("[data]\ntrain = \"faces\"\n")), "faces");
  EXPECT_EQ(train_path(parse("[data]\ntrain = [{path = \"faces\", weight = 2.0}]\n")), "faces");
}

TEST(DataConfig, SeveralOrNoTrainingSetsAreRefused) {
  EXPECT_THROW(train_path(parse("[data]\ntrain = [{path = \"a\"}, {path = \"b\"}]\n")), base::ConfigError);
  EXPECT_THROW(train_path(parse("")), base::ConfigError);
}

TEST(DataConfig, ShuffleIsOneOfItsNames) {
  EXPECT_EQ(order_options(parse("[data]\nshuffle = \"full\"\n")).shuffle, Shuffle::full);
  EXPECT_THROW(parse("[data]\nshuffle = \"random\"\n"), base::ConfigError);
  EXPECT_THROW(parse("[data]\nblock_images = 0\n"), base::ConfigError);
}

}  // namespace
}  // namespace ddpm::data
