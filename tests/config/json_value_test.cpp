#include "config/json_value.h"

#include <gtest/gtest.h>

#include "config/example.h"

namespace ddpm::config {
namespace {

TEST(JsonValue, AValueIsTheSameAfterJson) {
  Example example;
  example.steps = 3;
  example.name = Shape::constant;
  const Schema schema = describe(example);
  for (const Entry& entry : schema.entries()) {
    const base::OrderedJson json = to_json(current(entry));
    EXPECT_EQ(to_json(from_json(base::Json::parse(json.dump()))), json) << entry.path();
  }
  EXPECT_EQ(to_json(current(*schema.find("lr_schedule.name"))), "constant");
  EXPECT_TRUE(to_json(current(*schema.find("data.colour"))).is_null());
}

TEST(JsonValue, AKeyTakesWhatFitsAndRefusesTheRest) {
  Example example;
  const Schema schema = describe(example);
  const auto refused = [&](const char* path, const char* text) {
    return refusal([&] { assign(*schema.find(path), from_json(base::Json::parse(text)), "config.json"); });
  };
  EXPECT_EQ(refused("run.seed", "7"), "accepted");
  EXPECT_EQ(refused("optimizer.betas", "[0, 0.5]"), "accepted");
  EXPECT_EQ(example.betas, (std::vector<double>{0.0, 0.5}));
  EXPECT_EQ(refused("run.seed", "9223372036854775808"),
            "run.seed = 9.223372036854776e+18 in config.json; wanted: an integer");
  EXPECT_EQ(refused("run.seed", "{\"a\": 1}"), "run.seed = { } in config.json; wanted: an integer");
  EXPECT_EQ(refused("run.seed", "null"), "run.seed = null in config.json; wanted: an integer");
  EXPECT_EQ(refused("data.colour", "\"blue\""), "data.colour = \"blue\" in config.json; wanted: one of grey, rgb");
}

}  // namespace
}  // namespace ddpm::config
