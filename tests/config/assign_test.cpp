// Each kind of key takes what it should, and says what it wanted when it does not.
#include <limits>

#include <gtest/gtest.h>

#include "config/example.h"

namespace ddpm::config {
namespace {

class AssignTest : public testing::Test {
 protected:
  void read(const std::string& text) { apply(schema_, parse_toml(text, "run.toml"), "run.toml"); }
  void set(const std::string& path, const Value& value) { assign(*schema_.find(path), value, "config.json"); }

  Example example_;
  Schema schema_ = describe(example_);
};

TEST_F(AssignTest, EveryKindOfKey) {
  read(R"(
[run]
directory = "runs/b"
seed = 3
max_minutes = 90
[data]
flip = true
[model]
pretrained = "model"
channels = [1, 2, 3]
blocks = ["AttnDownBlock2D", "DownBlock2D"]
only_cross_attention = [true, false]
[train]
steps = 10
[optimizer]
learning_rate = 2e-4
betas = [0, 0.5]
)");
  EXPECT_EQ(example_.directory, "runs/b");
  EXPECT_EQ(example_.seed, 3);
  EXPECT_EQ(example_.max_minutes, 90.0);
  EXPECT_EQ(example_.flip, true);
  EXPECT_EQ(example_.pretrained, "model");
  EXPECT_EQ(example_.channels, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(example_.blocks, (std::vector<std::string>{"AttnDownBlock2D", "DownBlock2D"}));
  EXPECT_EQ(example_.only_cross_attention, (std::vector<bool>{true, false}));
  EXPECT_EQ(example_.steps, 10);
  EXPECT_EQ(example_.learning_rate, 2e-4);
  EXPECT_EQ(example_.betas, (std::vector<double>{0.0, 0.5}));
}

TEST_F(AssignTest, AScalarIsAListOfOne) {
  read("[optimizer]\nbetas = 0.9\n[model]\nchannels = 7\nblocks = \"DownBlock2D\"");
  EXPECT_EQ(example_.betas, std::vector<double>{0.9});
  EXPECT_EQ(example_.channels, std::vector<int64_t>{7});
  EXPECT_EQ(example_.blocks, std::vector<std::string>{"DownBlock2D"});
}

TEST_F(AssignTest, NullUnsetsOptionalsAndEmptiesLists) {
  read("[train]\nsteps = 10");
  set("train.steps", {nullptr});
  set("optimizer.betas", {nullptr});
  EXPECT_EQ(example_.steps, std::nullopt);
  EXPECT_TRUE(example_.betas.empty());
  EXPECT_EQ(refusal([&] { set("run.seed", {nullptr}); }), "run.seed = null in config.json; wanted: an integer");
}

TEST_F(AssignTest, TheThreeFormsOfATrainingSet) {
  read("[data]\ntrain = \"a\"");
  ASSERT_EQ(example_.train.size(), 1U);
  EXPECT_EQ(example_.train[0].path, "a");
  EXPECT_EQ(example_.train[0].weight, 1.0);
  read("[data]\ntrain = [\"a\", \"b\"]");
  ASSERT_EQ(example_.train.size(), 2U);
  EXPECT_EQ(example_.train[1].path, "b");
  read("[data]\ntrain = [{path = \"a\", weight = 3}, {path = \"b\"}]");
  ASSERT_EQ(example_.train.size(), 2U);
  EXPECT_EQ(example_.train[0].weight, 3.0);
  EXPECT_EQ(example_.train[1].weight, 1.0);
}

TEST_F(AssignTest, BadTrainingSets) {
  const std::string forms = "; wanted: a path, a list of paths, or a list of { path = \"...\", weight = 1.0 }";
  EXPECT_EQ(refusal_of("[data]\ntrain = 3"), "data.train = 3 in run.toml:2" + forms);
  EXPECT_EQ(refusal_of("[data]\ntrain = [{weight = 1}]"), "data.train = { weight = 1 } in run.toml:2" + forms);
  EXPECT_EQ(refusal_of("[data]\ntrain = [{path = 1}]"), "data.train = { path = 1 } in run.toml:2" + forms);
  EXPECT_EQ(refusal_of("[data]\ntrain = [{path = \"a\", wieght = 1}]"),
            "unknown key wieght of data.train in run.toml:2; known: path, weight");
  for (const std::string weight : {"0", "-1", "inf", "nan", "\"1\""}) {
    EXPECT_EQ(refusal_of("[data]\ntrain = [{path = \"a\", weight = " + weight + "}]"),
              "data.train = { path = \"a\", weight = " + weight + " } in run.toml:2; wanted: a finite weight above 0");
  }
}

TEST_F(AssignTest, WrongTypes) {
  EXPECT_EQ(refusal_of("[run]\nseed = 1.5"), "run.seed = 1.5 in run.toml:2; wanted: an integer");
  EXPECT_EQ(refusal_of("[run]\nseed = 1.0"), "run.seed = 1.0 in run.toml:2; wanted: an integer");
  EXPECT_EQ(refusal_of("[run]\nseed = true"), "run.seed = true in run.toml:2; wanted: an integer");
  EXPECT_EQ(refusal_of("[run]\ndirectory = 5"), "run.directory = 5 in run.toml:2; wanted: a string");
  EXPECT_EQ(refusal_of("[logging]\n\nprogress = \"yes\""),
            "logging.progress = \"yes\" in run.toml:3; wanted: true or false");
  EXPECT_EQ(refusal_of("[optimizer]\nlearning_rate = \"fast\""),
            "optimizer.learning_rate = \"fast\" in run.toml:2; wanted: a number");
  EXPECT_EQ(refusal_of("[optimizer]\nlearning_rate = [1.0]"),
            "optimizer.learning_rate = [1.0] in run.toml:2; wanted: a number");
  EXPECT_EQ(refusal_of("[optimizer]\nbetas = [0.5,\n\"x\"]"),
            "optimizer.betas = \"x\" in run.toml:3; wanted: a number");
}

TEST_F(AssignTest, Ranges) {
  EXPECT_EQ(refusal_of("[run]\nseed = -1"), "run.seed = -1 in run.toml:2; wanted: a number at least 0");
  EXPECT_EQ(refusal_of("[run]\nmax_minutes = 0"), "run.max_minutes = 0 in run.toml:2; wanted: a number above 0");
  EXPECT_EQ(refusal_of("[optimizer]\nbetas = [0.0, 1.0]"),
            "optimizer.betas = 1.0 in run.toml:2; wanted: a number at least 0 and below 1");
  EXPECT_EQ(refusal_of("[model]\nchannels = [4096, 4097]"),
            "model.channels = 4097 in run.toml:2; wanted: a number at least 1 and at most 4096");
  EXPECT_EQ(refusal_of("[model]\nchannels = [1, 4096]"), "accepted");
  EXPECT_EQ(refusal_of("[optimizer]\nlearning_rate = nan"),
            "optimizer.learning_rate = nan in run.toml:2; wanted: a finite number");
  EXPECT_EQ(refusal_of("[optimizer]\nlearning_rate = inf"),
            "optimizer.learning_rate = inf in run.toml:2; wanted: a finite number");
}

// What LibTorch computes with in float32 must be a number there: 1e39 is infinite, 1e-46 is 0.
TEST_F(AssignTest, NumbersAreThoseOfFloat32) {
  for (const char* number : {"3.4028234663852886e38", "1.4e-45", "0.0", "1"}) {
    EXPECT_EQ(refusal_of(std::string("[optimizer]\nlearning_rate = ") + number), "accepted") << number;
  }
  EXPECT_EQ(refusal_of("[optimizer]\nlearning_rate = 1e39"),
            "optimizer.learning_rate = 1e+39 in run.toml:2; wanted: a number of float32, at most 3.40282e+38 in size");
  EXPECT_EQ(refusal_of("[optimizer]\nlearning_rate = 1e-46"),
            "optimizer.learning_rate = 1e-46 in run.toml:2; wanted: "
            "0, or a number of float32, at least 1.4013e-45 in size");
  EXPECT_EQ(
      refusal_of("[optimizer]\nbetas = [0.9, 0.9999999999]"),
      "optimizer.betas = 0.9999999999 in run.toml:2; wanted: a number at least 0 and below 1 also when float32 has "
      "rounded it");
  EXPECT_EQ(refusal_of("[optimizer]\nbetas = [0.9, 0.9999999]"), "accepted");
  EXPECT_NE(refusal_of("[data]\ntrain = [{ path = \"a\", weight = 1e300 }]"), "accepted");
}

TEST_F(AssignTest, Choices) {
  EXPECT_EQ(refusal_of("[lr_schedule]\nname = \"cosin\""),
            "lr_schedule.name = \"cosin\" in run.toml:2; wanted: one of constant, cosine");
  EXPECT_EQ(refusal_of("[model]\nblocks = [\"UpBlock2D\"]"),
            "model.blocks = \"UpBlock2D\" in run.toml:2; wanted: one of DownBlock2D, AttnDownBlock2D");
}

TEST_F(AssignTest, AnEnumerationIsParsedOnceAndKnowsItsNames) {
  read("[lr_schedule]\nname = \"constant\"\n[data]\ncolour = \"rgb\"");
  EXPECT_EQ(example_.name, Shape::constant);
  EXPECT_EQ(example_.colour, Colour::rgb);
  set("data.colour", {nullptr});
  EXPECT_EQ(example_.colour, std::nullopt);
  EXPECT_EQ(refusal([&] { set("lr_schedule.name", {nullptr}); }),
            "lr_schedule.name = null in config.json; wanted: a string");
  EXPECT_EQ(refusal_of("[lr_schedule]\nname = 0"), "lr_schedule.name = 0 in run.toml:2; wanted: a string");
  EXPECT_EQ(refusal_of("[data]\ncolour = \"blue\""), "data.colour = \"blue\" in run.toml:2; wanted: one of grey, rgb");
  EXPECT_EQ(example_.name, Shape::constant);
}

TEST_F(AssignTest, WhatAProgramSetIsCheckedAsWhatAFileHolds) {
  EXPECT_NO_THROW(check_values(schema_));
  example_.channels = {64, 4097};
  EXPECT_EQ(refusal([&] { check_values(schema_); }),
            "model.channels = 4097; wanted: a number at least 1 and at most 4096");
  example_.channels = {64};
  example_.blocks = {"UpBlock2D"};
  EXPECT_EQ(refusal([&] { check_values(schema_); }),
            "model.blocks = \"UpBlock2D\"; wanted: one of DownBlock2D, AttnDownBlock2D");
}

TEST_F(AssignTest, TextThatCannotBeWrittenBackIsRefused) {
  EXPECT_EQ(refusal([&] { set("run.directory", {std::string("a\xff")}); }),
            "run.directory = (bytes that are not UTF-8) in config.json; wanted: text in UTF-8");
}

TEST_F(AssignTest, LongValuesAreCutInMessages) {
  const std::string said = refusal_of("[lr_schedule]\nname = \"" + std::string(1000, 'x') + "\"");
  EXPECT_LT(said.size(), 200U);
  EXPECT_NE(said.find("xxx... in run.toml:2"), std::string::npos) << said;
}

TEST(Schema, AKeyIsDeclaredOnce) {
  Schema schema;
  int64_t value = 0;
  Section section = schema.section("run", "", Identity::fixed);
  section.key("seed", value, "");
  EXPECT_THROW(section.key("seed", value, ""), base::InternalError);
}

}  // namespace
}  // namespace ddpm::config
