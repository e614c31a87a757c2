// Precedence, the command line, and what a misspelt key is answered.
#include <gtest/gtest.h>

#include "config/example.h"

namespace ddpm::config {
namespace {

class OverrideTest : public testing::Test {
 protected:
  void override(std::vector<std::string> arguments) { apply_overrides(schema_, arguments); }
  std::string refused(std::vector<std::string> arguments) {
    return refusal([&] { apply_overrides(schema_, arguments); });
  }

  Example example_;
  Schema schema_ = describe(example_);
};

TEST_F(OverrideTest, DefaultsThenFileThenCommandLine) {
  apply(schema_, parse_toml("[run]\nseed = 1\n[optimizer]\nlearning_rate = 0.5", "run.toml"), "run.toml");
  override({"--run.seed", "2", "--run.seed=3"});
  EXPECT_EQ(example_.seed, 3);
  EXPECT_EQ(example_.learning_rate, 0.5);
  EXPECT_EQ(example_.betas, (std::vector<double>{0.95, 0.999}));
}

TEST_F(OverrideTest, AValueIsTomlElseAString) {
  override({"--optimizer.betas", "[0.1, 0.2]", "--logging.progress", "false", "--optimizer.learning_rate=1e-3",
            "--lr_schedule.name", "constant", "--run.directory=runs/x=y", "--data.train",
            "[{path = \"a\", weight = 2}, {path = \"b\"}]", "--model.blocks", "AttnDownBlock2D"});
  EXPECT_EQ(example_.betas, (std::vector<double>{0.1, 0.2}));
  EXPECT_FALSE(example_.progress);
  EXPECT_EQ(example_.learning_rate, 1e-3);
  EXPECT_EQ(example_.name, Shape::constant);
  EXPECT_EQ(example_.directory, "runs/x=y");
  EXPECT_EQ(example_.train.size(), 2U);
  EXPECT_EQ(example_.blocks, std::vector<std::string>{"AttnDownBlock2D"});
  override({"--run.directory", "\"quoted\""});
  EXPECT_EQ(example_.directory, "quoted");
}

TEST_F(OverrideTest, AStringKeyTakesTextThatLooksLikeSomethingElse) {
  for (const std::string text :
       {"5", "1e3", "true", "2024-01-01", "[1]", "{ a = 1 }", "-", "--x", "a\nb = 1", "1\nx = 2", ""}) {
    override({"--run.directory", text});
    EXPECT_EQ(example_.directory, text);
  }
  override({"--data.train", "5", "--model.pretrained", "7"});
  EXPECT_EQ(example_.train[0].path, "5");
  EXPECT_EQ(example_.pretrained, "7");
}

TEST_F(OverrideTest, Refusals) {
  EXPECT_EQ(refused({"--run.seed", "abc"}), "run.seed = \"abc\" on the command line; wanted: an integer");
  EXPECT_EQ(refused({"--run.seed", "-1"}), "run.seed = -1 on the command line; wanted: a number at least 0");
  EXPECT_EQ(refused({"--run.seed"}), "run.seed has no value on the command line; wanted: --run.seed VALUE");
  EXPECT_EQ(refused({"run.seed", "1"}), "unexpected argument run.seed; wanted: --section.key VALUE");
  EXPECT_EQ(refused({"--"}), "unexpected argument --; wanted: --section.key VALUE");
  EXPECT_EQ(refused({"--optimizer.learning_rat", "1"}),
            "unknown key optimizer.learning_rat on the command line; did you mean optimizer.learning_rate?");
  EXPECT_EQ(refused({"--seed=1"}), "unknown key seed on the command line; did you mean run.seed?");
  EXPECT_EQ(refused({"--optimizer.rate", "1"}),
            "unknown key optimizer.rate on the command line; did you mean optimizer.learning_rate?");
  EXPECT_EQ(refused({"--foo.bar", "1"}),
            "unknown section [foo] on the command line; known: run, data, model, train, "
            "optimizer, lr_schedule, logging");
}

// A site's file and a user's file.
TEST_F(OverrideTest, ALaterFileWinsKeyByKey) {
  apply(schema_, parse_toml("[run]\nseed = 1\n[model]\nchannels = [8, 16]", "site.toml"), "site.toml");
  apply(schema_, parse_toml("[run]\nseed = 2", "my.toml"), "my.toml");
  EXPECT_EQ(example_.seed, 2);
  EXPECT_EQ(example_.channels, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(refusal([&] { apply(schema_, parse_toml("\n[run]\nseed = -2", "my.toml"), "my.toml"); }),
            "run.seed = -2 in my.toml:3; wanted: a number at least 0");
}

TEST_F(OverrideTest, ALaterFileReplacesWhatMeansTheSame) {
  apply(schema_, parse_toml("[train]\nepochs = 2", "site.toml"), "site.toml");
  apply(schema_, parse_toml("[train]\nsteps = 7\n[lr_schedule]\nwarmup_fraction = 0.1", "my.toml"), "my.toml");
  EXPECT_EQ(example_.epochs, std::nullopt);
  EXPECT_EQ(example_.steps, 7);
  EXPECT_EQ(example_.warmup_steps, std::nullopt);
  override({"--train.epochs", "3", "--lr_schedule.warmup_steps=4"});
  EXPECT_EQ(example_.epochs, 3.0);
  EXPECT_EQ(example_.steps, std::nullopt);
  EXPECT_EQ(example_.warmup_steps, 4);
  EXPECT_EQ(example_.warmup_fraction, std::nullopt);
  override({"--train.epochs", "3", "--train.steps", "4"});  // both at once are left for the component to refuse
  EXPECT_TRUE(example_.epochs && example_.steps);
}

TEST_F(OverrideTest, WhatIsPrintedReadsBackTheSame) {
  override({"--lr_schedule.warmup_fraction", "0.25"});
  Example copy;
  const Schema schema = describe(copy);
  apply(schema, parse_toml(to_toml(schema_, true), "shown.toml"), "shown.toml");
  EXPECT_EQ(copy.warmup_steps, std::nullopt);
  EXPECT_EQ(copy.warmup_fraction, 0.25);
  EXPECT_EQ(identity_hash(schema), identity_hash(schema_));
}

TEST(UnknownKeys, NameTheNearestKnownOne) {
  EXPECT_EQ(refusal_of("\n\n[optimizer]\nlearning_rat = 1"),
            "unknown key optimizer.learning_rat in run.toml:4; did you mean optimizer.learning_rate?");
  EXPECT_EQ(refusal_of("[optimizer]\nseed = 1"), "unknown key optimizer.seed in run.toml:2; did you mean run.seed?");
  EXPECT_EQ(refusal_of("seed = 1"), "unknown key seed in run.toml:1; did you mean run.seed?");
  EXPECT_EQ(refusal_of("[optimizer]\nxyzzy_plugh_quux = 1"),
            "unknown key optimizer.xyzzy_plugh_quux in run.toml:2; keys of [optimizer]: learning_rate, betas");
  EXPECT_EQ(refusal_of("[lr_schedule]\nwarm = 1"),
            "unknown key lr_schedule.warm in run.toml:2; did you mean "
            "lr_schedule.warmup_steps or lr_schedule.warmup_fraction?");
}

TEST(UnknownKeys, AZeroByteDoesNotEndTheLine) {
  EXPECT_EQ(refusal_of("\"a\\u0000\\nb\" = 1"), "unknown key \"a\\u0000\\nb\" in run.toml:1");
}

TEST(UnknownKeys, NameTheNearestSection) {
  EXPECT_EQ(refusal_of("[optimiser]\nlearning_rate = 1"),
            "unknown section [optimiser] in run.toml:1; did you mean [optimizer]?");
  EXPECT_EQ(
      refusal_of("[qwertyuiop]"),
      "unknown section [qwertyuiop] in run.toml:1; known: run, data, model, train, optimizer, lr_schedule, logging");
  EXPECT_EQ(refusal_of("run = 3"), "run = 3 in run.toml:1; wanted: a section [run]");
}

TEST(Nearest, ByEditDistance) {
  const std::vector<std::string> words = {"micro_size", "global_size", "steps"};
  EXPECT_EQ(nearest("micro_sise", words), "micro_size");
  EXPECT_EQ(nearest("stesp", words), "steps");
  EXPECT_EQ(nearest("size_global", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest("steps", {}), "");
}

}  // namespace
}  // namespace ddpm::config
