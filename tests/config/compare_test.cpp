// Identity hash and the comparison that a resumed run makes.
#include <gtest/gtest.h>

#include "config/example.h"

namespace ddpm::config {
namespace {

std::string hash_after(const std::string& text) {
  Example example;
  const Schema schema = describe(example);
  apply(schema, parse_toml(text, "run.toml"), "run.toml");
  return identity_hash(schema);
}

TEST(IdentityHash, FollowsTheKeysThatBelongToARun) {
  const std::string untouched = hash_after("");
  EXPECT_EQ(untouched.size(), 64U);
  EXPECT_NE(hash_after("[run]\nseed = 1"), untouched);
  EXPECT_NE(hash_after("[run]\nmax_minutes = 1"), untouched);
  EXPECT_NE(hash_after("[optimizer]\nbetas = [0.95, 0.998]"), untouched);
  EXPECT_NE(hash_after("[data]\ntrain = [\"a\", \"b\"]"),
            hash_after("[data]\ntrain = [{path = \"a\"}, {path = \"b\", weight = 2}]"));
}

TEST(IdentityHash, IgnoresTheOthersAndTheSpelling) {
  const std::string untouched = hash_after("");
  EXPECT_EQ(hash_after("[run]\ndirectory = \"elsewhere\"\n[train]\nsteps = 9\n[logging]\nprogress = false"), untouched);
  EXPECT_EQ(hash_after("[optimizer]\nlearning_rate = 0.0001"), untouched);
  EXPECT_EQ(hash_after("[optimizer]\nlearning_rate = 1"), hash_after("[optimizer]\nlearning_rate = 1.0"));
  EXPECT_EQ(hash_after("[data]\ntrain = \"a\""), hash_after("[data]\ntrain = [{path = \"a\", weight = 1.0}]"));
}

TEST(IdentityHash, IsIndependentOfDeclarationOrder) {
  int64_t a = 1;
  int64_t b = 2;
  Schema forward;
  forward.section("x", "", Identity::fixed).key("a", a, "");
  forward.section("y", "", Identity::fixed).key("b", b, "");
  Schema backward;
  backward.section("y", "", Identity::fixed).key("b", b, "");
  backward.section("x", "", Identity::fixed).key("a", a, "");
  EXPECT_EQ(identity_hash(forward), identity_hash(backward));
}

TEST(FindValue, IsThatOfTheKeyOfItsSection) {
  const Table table = parse_toml("umask = 1\n[run]\nseed = 3\n[data]\numask = 2", "then");
  ASSERT_NE(find_value(table, "run", "seed"), nullptr);
  EXPECT_EQ(std::get<int64_t>(find_value(table, "run", "seed")->data), 3);
  EXPECT_EQ(find_value(table, "run", "umask"), nullptr);
  EXPECT_EQ(find_value(table, "umask", "seed"), nullptr);
  EXPECT_EQ(find_value(table, "model", "seed"), nullptr);
}

// config.toml does not hold keys that are unset: they are not taken for the default.
TEST(Differences, AKeyThatAnotherReplacedIsUnset) {
  Example example;
  const Schema schema = describe(example);
  apply(schema, parse_toml("[lr_schedule]\nwarmup_fraction = 0.25", "now"), "now");
  EXPECT_TRUE(differences(schema, parse_toml(to_toml(schema, true), "then")).empty());
  const std::vector<Difference> found = differences(schema, parse_toml("[lr_schedule]\nwarmup_steps = 500", "then"));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, "lr_schedule.warmup_steps");
  EXPECT_EQ(found[0].stored, "500");
  EXPECT_EQ(found[0].now, "unset");
  EXPECT_EQ(found[1].now, "0.25");
}

TEST(Differences, NameBothValuesAndTheirIdentity) {
  Example example;
  const Schema schema = describe(example);
  apply(schema, parse_toml("[run]\nseed = 4\n[train]\nsteps = 20\n[optimizer]\nbetas = [0.9, 0.99]", "now"), "now");
  const Table stored = parse_toml("[run]\nseed = 3\n[train]\nsteps = 10\n[optimizer]\nbetas = [0.9, 0.99]", "then");
  const std::vector<Difference> found = differences(schema, stored);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, "run.seed");
  EXPECT_EQ(found[0].stored, "3");
  EXPECT_EQ(found[0].now, "4");
  EXPECT_EQ(found[0].identity, Identity::fixed);
  EXPECT_EQ(found[1].path, "train.steps");
  EXPECT_EQ(found[1].identity, Identity::may_change);
}

TEST(Differences, AKeyMayChangeWhileAnotherOneFreesIt) {
  std::string train = "a";
  bool freed = false;
  Schema schema;
  schema.section("data", "", Identity::fixed)
      .key("train", train, "Set", {.freed_by = "continue"})
      .key("continue", freed, "Whether another set will do", {.identity = Identity::may_change});
  const Table stored = parse_toml("[data]\ntrain = \"b\"", "then");
  EXPECT_EQ(differences(schema, stored).front().identity, Identity::fixed);
  freed = true;
  EXPECT_EQ(differences(schema, stored).front().identity, Identity::may_change);
}

TEST(Differences, AKeyMayChangeWhileANumberFreesIt) {
  std::string base = "a";
  int64_t rank = 0;
  Schema schema;
  schema.section("model", "", Identity::fixed).key("base", base, "Where", {.freed_by = "rank"}).key("rank", rank, "Of");
  const auto identity = [&](const char* stored) {
    return differences(schema, parse_toml(stored, "then")).front().identity;
  };
  EXPECT_EQ(identity("[model]\nbase = \"b\""), Identity::fixed);
  rank = 4;
  EXPECT_EQ(identity("[model]\nbase = \"b\"\nrank = 4"), Identity::may_change);
}

TEST(Differences, AKeyThatWasNotStoredCountsWithItsDefault) {
  Example example;
  const Schema schema = describe(example);
  EXPECT_TRUE(differences(schema, {}).empty());
  example.seed = 5;
  example.steps = 7;
  const std::vector<Difference> found = differences(schema, {});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].stored, "0");
  EXPECT_EQ(found[1].stored, "unset");
  EXPECT_EQ(found[1].now, "7");
}

TEST(Differences, SpellingIsNoDifference) {
  Example example;
  const Schema schema = describe(example);
  example.learning_rate = 1.0;
  example.train = {{"a", 1.0}};
  EXPECT_TRUE(
      differences(schema, parse_toml("[optimizer]\nlearning_rate = 1\n[data]\ntrain = [{path = \"a\"}]", "then"))
          .empty());
}

}  // namespace
}  // namespace ddpm::config
