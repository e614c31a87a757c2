#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/example.h"

namespace ddpm::config {
namespace {

using testing::HasSubstr;

TEST(ToToml, ShowsValuesAndCommentsOutWhatIsUnset) {
  Example example;
  const Schema schema = describe(example);
  const std::string text = to_toml(schema, false);
  EXPECT_THAT(text, HasSubstr("[run]\ndirectory = \"runs/a\"\nseed = 0\n# max_minutes = (unset)\n"));
  EXPECT_THAT(text, HasSubstr("[train]\n# steps = (from epochs)\n"));
  EXPECT_THAT(text, HasSubstr("[optimizer]\nlearning_rate = 0.0001\nbetas = [0.95, 0.999]\n"));
  EXPECT_EQ(text.find("Root of all"), std::string::npos);
}

TEST(ToToml, DocumentsEveryKeyOnRequest) {
  Example example;
  const std::string text = to_toml(describe(example), true);
  EXPECT_THAT(text, HasSubstr("# AdamW.\n[optimizer]\n# Peak learning rate. (at least 0)\nlearning_rate = 0.0001\n"));
  EXPECT_THAT(text, HasSubstr("# Decay of the moments. (at least 0, below 1)\n"));
  EXPECT_THAT(text, HasSubstr("# Shape. (constant, cosine)\nname = \"cosine\"\n"));
}

// Runs that began when a key was a string can be continued: their config.toml and hash stay as they are.
TEST(ToToml, AnEnumerationIsTheStringThatNamesIt) {
  std::string text = "constant";
  std::optional<std::string> unset;
  Schema strings;
  strings.section("s", "", Identity::fixed)
      .key("name", text, "Shape.", {.choices = {"constant", "cosine"}})
      .key("colour", unset, "Colour.", {.choices = {"grey", "rgb"}});
  auto shape = Shape::constant;
  std::optional<Colour> colour;
  Schema names;
  names.section("s", "", Identity::fixed).key("name", shape, "Shape.").key("colour", colour, "Colour.");
  for (const bool set : {false, true}) {
    if (set) {
      text = "cosine";
      unset = "rgb";
      shape = Shape::cosine;
      colour = Colour::rgb;
    }
    EXPECT_EQ(to_toml(names, true), to_toml(strings, true));
    EXPECT_EQ(to_markdown(names), to_markdown(strings));
    EXPECT_EQ(identity_hash(names), identity_hash(strings));
    EXPECT_TRUE(differences(names, parse_toml(to_toml(strings, false), "then")).empty());
  }
}

// Awkward values of every kind survive being written and read, and the run is still the same run.
TEST(ToToml, ReadingItBackGivesTheSameConfiguration) {
  Example written;
  const Schema from = describe(written);
  written.directory = "a \"quoted\" \\ path\twith\ncontrol \x01\x7f and \xc3\xa9";
  written.seed = std::numeric_limits<int64_t>::max();
  written.learning_rate = 0.1 + 0.2;
  written.betas = {0.0, 1.5e-45, 1.0 / 3.0};
  written.max_minutes = 3e38;
  written.flip = false;
  written.steps = 12;
  written.channels = {};
  written.only_cross_attention = {true, false};
  written.train = {{"x, y", 0.5}, {"[z]", 2.0}};
  for (const bool documented : {false, true}) {
    Example read;
    const Schema to = describe(read);
    apply(to, parse_toml(to_toml(from, documented), "config.toml"), "config.toml");
    EXPECT_EQ(to_toml(to, documented), to_toml(from, documented));
    EXPECT_EQ(identity_hash(to), identity_hash(from));
    EXPECT_EQ(read.directory, written.directory);
    EXPECT_EQ(read.betas, written.betas);
    EXPECT_EQ(read.learning_rate, written.learning_rate);
    EXPECT_EQ(read.seed, written.seed);
    EXPECT_EQ(read.train[1].path, "[z]");
    EXPECT_TRUE(differences(from, parse_toml(to_toml(from, documented), "config.toml")).empty());
  }
}

TEST(ToToml, FloatsLookLikeFloats) {
  Example example;
  const Schema schema = describe(example);
  example.betas = {0.0, 1e-8, 1e22, -0.0};
  example.learning_rate = std::numeric_limits<double>::infinity();
  const std::string text = to_toml(schema, false);
  EXPECT_THAT(text, HasSubstr("betas = [0.0, 1e-08, 1e+22, -0.0]"));
  EXPECT_THAT(text, HasSubstr("learning_rate = inf"));
}

TEST(ToMarkdown, IsATablePerSectionOfDefaults) {
  Example example;
  const Schema schema = describe(example);
  example.learning_rate = 5.0;  // the page shows defaults, not what is set
  const std::string text = to_markdown(schema);
  EXPECT_THAT(text, HasSubstr("## `[optimizer]`\n\nAdamW.\n\n| key | default | meaning |\n|---|---|---|\n"
                              "| `learning_rate` | `0.0001` | Peak learning rate. (at least 0) |\n"));
  EXPECT_THAT(text, HasSubstr("| `steps` | from epochs | Optimizer steps. (at least 1) |\n"));
  EXPECT_THAT(text, HasSubstr("| `channels` | `[128, 256]` | Channels \\| per level. (at least 1, at most 4096) |\n"));
  EXPECT_THAT(text, HasSubstr("| `max_minutes` | unset | "));
}

}  // namespace
}  // namespace ddpm::config
