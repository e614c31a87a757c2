#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/example.h"

namespace ddpm::config {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refused(const std::string& text) {
  return refusal([&] { parse_toml(text, "run.toml"); });
}

TEST(Toml, ErrorsNameFileAndLine) {
  EXPECT_THAT(refused("[run]\nseed = = 3"), StartsWith("run.toml:2: "));
  EXPECT_THAT(refused("[run]\nseed = 1\nseed = 2"), StartsWith("run.toml:3: "));
  EXPECT_THAT(refused("[run]\n[data]\n[run]"), StartsWith("run.toml:3: "));
  EXPECT_THAT(refused("a = \"\xff\""), StartsWith("run.toml:1: "));
  EXPECT_THAT(refused("\na = 2024-01-01"), StartsWith("run.toml:2: dates and times are not used here"));
  for (const char* text : {"[run", "a", "a = [1, 2", "a = \"x", "a = '''x", "a = 1 b = 2"}) {
    EXPECT_THAT(refused(text), StartsWith("run.toml:1: ")) << text;
  }
}

TEST(Toml, MissingFileIsNamed) {
  EXPECT_EQ(refusal([] { read_toml("/nonexistent/run.toml"); }),
            "/nonexistent/run.toml: cannot open: No such file or directory");
}

TEST(Toml, AFileIsReadWithItsNameAsOrigin) {
  const std::string path = testing::TempDir() + "ddpm_toml_test.toml";
  std::ofstream(path) << "[run]\nseed = x\n";
  EXPECT_THAT(refusal([&] { read_toml(path); }), StartsWith(path + ":2: "));
  std::filesystem::remove(path);
}

TEST(Toml, DepthIsLimited) {
  EXPECT_EQ(refused("[a]\nb = [[[[[[1]]]]]]"), "accepted");
  EXPECT_EQ(refused("[a]\n\nb = [[[[[[[1]]]]]]]"), "run.toml:3: nested more than 8 levels deep");
  EXPECT_EQ(refused("a.b.c.d.e.f.g.h.i = 1"), "run.toml:1: nested more than 8 levels deep");
}

// Names of very many parts would overflow the stack in toml++, before any other limit is seen.
TEST(Toml, KeysOfManyPartsAreRefusedBeforeParsing) {
  std::string deep = "a";
  for (int i = 0; i < 100000; ++i) deep += ".a";
  EXPECT_EQ(refused("\n[" + deep + "]"), "run.toml:2: a key of more than 17 parts");
  EXPECT_EQ(refused("x = 1\n\"=\\\"#\"." + deep + " = 1"), "run.toml:2: a key of more than 17 parts");
  EXPECT_EQ(refused("x = '''\n.\n''' # comment\n" + deep + " = 1"), "run.toml:4: a key of more than 17 parts");
}

TEST(Toml, DotsInStringsCommentsAndListsAreNotCounted) {
  const std::string dots(100, '.');
  EXPECT_EQ(refused("a = \"" + dots + "\" # " + dots + "\nb = '" + dots + "'\nc = \"\"\"\n\\\"" + dots + "\"\"\""),
            "accepted");
  std::string list = "d = [0.5";
  for (int i = 0; i < 100; ++i) list += ", 0.5";
  EXPECT_EQ(refused(list + "]"), "accepted");
}

TEST(Toml, SizeIsLimited) {
  const std::string filler(1U << 20U, '#');
  EXPECT_EQ(refused(filler), "accepted");
  EXPECT_EQ(refused(filler + "#"), "run.toml: 1048577 bytes of configuration; wanted: at most 1048576");
}

// The first two of four or five closing quotes belong to the text: a reader that takes them for the beginning of the
// next string is blind to what stands there.
TEST(Toml, QuotesBeforeTheClosingOnesHideNoKey) {
  std::string deep = "a";
  for (int i = 0; i < 100000; ++i) deep += ".a";
  for (const char* close : {"\"\"\"\"", "\"\"\"\"\"", "''''"}) {
    const std::string open(3, *close);
    const std::string text = "x = [" + open + "text" + close + ", {" + deep + " = 1}, " + *close + "b" + *close + "]";
    EXPECT_EQ(refused(text), "run.toml:1: a key of more than 17 parts") << close;
  }
}

}  // namespace
}  // namespace ddpm::config
