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

TEST(DataConfig, TrainingSetsAreAPathOrAListOfWeightedOnes) {
  const auto one = train_sources(parse("[data]\ntrain = \"faces\"\n"));
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one.front().path, "faces");
  const auto two = train_sources(parse("[data]\ntrain = [{path = \"a\", weight = 2.0}, \"b\"]\n"));
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].path, "a");
  EXPECT_EQ(two[0].weight, 2.0);
  EXPECT_EQ(two[1].path, "b");
  EXPECT_EQ(two[1].weight, 1.0);
}

TEST(DataConfig, NoTrainingSetIsRefused) {
  EXPECT_THROW(train_sources(parse("")), base::ConfigError);
  EXPECT_THROW(train_sources(parse("[data]\ntrain = [\"a\", \"\"]\n")), base::ConfigError);
}

TEST(DataConfig, ShuffleIsOneOfItsNames) {
  EXPECT_EQ(order_options(parse("[data]\nshuffle = \"full\"\n")).shuffle, Shuffle::full);
  EXPECT_THROW(parse("[data]\nshuffle = \"random\"\n"), base::ConfigError);
  EXPECT_THROW(parse("[data]\nblock_images = 0\n"), base::ConfigError);
}

TEST(DataConfig, VariablesOfForeignFilesBecomeOptions) {
  const DataConfig c = parse(
      "[data]\nvariables = [\"t2m\", \"z level=500\"]\naxes = [\"lat\", \"lon\"]\nsample_axes = \"time\"\nlead = 4\n"
      "missing = \"mask\"\ncondition = \"sst, u10\"\n");
  EXPECT_NO_THROW(validate(c));
  const DatasetOptions options = dataset_options(c);
  EXPECT_EQ(options.variables, (std::vector<std::string>{"t2m", "z level=500"}));
  EXPECT_EQ(options.axes, (std::vector<std::string>{"lat", "lon"}));
  EXPECT_EQ(options.sample_axes, (std::vector<std::string>{"time"}));
  EXPECT_EQ(options.lead, 4);
  EXPECT_EQ(options.missing, Missing::mask);
  EXPECT_EQ(options.condition, "sst, u10");
  EXPECT_THROW(validate(parse("[data]\ncondition = \"sst, u10\"\n")), base::ConfigError) << "of a bare file";
}

}  // namespace
}  // namespace ddpm::data
