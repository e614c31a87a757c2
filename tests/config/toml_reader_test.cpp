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
  EXPECT_THAT(refused("[run]\nseed = = 3"), StartsWith("run.toml:2:"));
  EXPECT_THAT(refused("[run]\nseed = 1\nseed = 2"), StartsWith("run.toml:3:"));
  EXPECT_THAT(refused("[run]\n[data]\n[run]"), StartsWith("run.toml:3:"));
  EXPECT_THAT(refused("a = \"\xff\""), StartsWith("run.toml:1:"));
  EXPECT_THAT(refused("\na = 2024-01-01"), StartsWith("run.toml:2:5: dates and times are not used here"));
  for (const char* text : {"[run", "a", "a = [1, 2", "a = \"x", "a = '''x", "a = 1 b = 2"}) {
    EXPECT_THAT(refused(text), StartsWith("run.toml:1:")) << text;
  }
}

TEST(Toml, SyntaxErrorsNameTheColumnInOneLine) {
  EXPECT_THAT(refused("[run]\nseed = = 3"), StartsWith("run.toml:2:8: "));
  // What the parser saw may be the end of a line: it is spelt out when the line is printed (base/log.h).
  for (const char* text : {"a = fals\n", "a = tru\n", "a = t\n", "a = in\n", "a = +na\n", "a = 12:3\n", "a = {\n}"}) {
    EXPECT_THAT(refused(text), StartsWith("run.toml:1:")) << text;
  }
}

// Texts at the limits of what the rules of TOML 1.0 allow and refuse.
TEST(Toml, OddTextsAreAcceptedOrRefusedAsTomlSays) {
  for (const char* text : {"\"\" = 1",
                           "\"a\\nb\" = 1",
                           "'' = ''",
                           "a.'b.c'.\"d\" = 1",
                           "1e3 = 1",
                           "a = -0",
                           "a = 1_000",
                           "a = 0xFFff",
                           "a = -nan",
                           "a = +inf",
                           "a = \"\"\"\\\n   x\"\"\"",
                           "a = '''''x'''''",
                           "a = [ 1, # c\n 2, ]",
                           "[a.b]\n[a]\nc = 1",
                           "[[a]]\n[[a]]\n[a.b]",
                           "a = {}",
                           "a = { b.c = 1, d = 2 }",
                           "# \t\n\r\n",
                           "a = 1e06",
                           "a = \"\\U0001F600\""}) {
    EXPECT_EQ(refused(text), "accepted") << text;
  }
  for (const char* text : {"a = 01",
                           "a = 1__0",
                           "a = .5",
                           "a = 5.",
                           "a = 0XF",
                           "a = 1e_3",
                           "a = True",
                           "a = \"\\q\"",
                           "a = \"\\uD800\"",
                           "a = \"x\ny\"",
                           "a = [1 2]",
                           "a = [,]",
                           "a = {b = 1,}",
                           "a = {b = 1\n}",
                           "a = {}\na.b = 1",
                           "a = 1\na.b = 2",
                           "[a]\n[a]",
                           "[[a]]\n[a]",
                           "a = []\n[[a]]",
                           "= 1",
                           "a",
                           "a =",
                           "[]",
                           "[a.]",
                           "[a]]",
                           "a = 1 # \x01",
                           "a = 1\rb = 2",
                           "a b = 1",
                           "\"\"\"a\"\"\" = 1",
                           "a = 9223372036854775808",
                           "a = 2021-02-30",
                           "a = 24:00:00",
                           "a = \"\xc0\xaf\""}) {
    EXPECT_THAT(refused(text), StartsWith("run.toml:")) << text;
  }
}

TEST(Toml, MissingFileIsNamed) {
  EXPECT_EQ(refusal([] { read_toml("/nonexistent/run.toml"); }),
            "/nonexistent/run.toml: cannot open: No such file or directory");
}

TEST(Toml, AFileIsReadWithItsNameAsOrigin) {
  const std::string path = testing::TempDir() + "ddpm_toml_test.toml";
  std::ofstream(path) << "[run]\nseed = x\n";
  EXPECT_THAT(refusal([&] { read_toml(path); }), StartsWith(path + ":2:8: "));
  std::filesystem::remove(path);
}

TEST(Toml, DepthIsLimited) {
  EXPECT_EQ(refused("[a]\nb = [[[[[[1]]]]]]"), "accepted");
  EXPECT_EQ(refused("[a]\n\nb = [[[[[[[1]]]]]]]"), "run.toml:3:12: nested more than 8 levels deep");
  EXPECT_EQ(refused("a.b.c.d.e.f.g.h.i = 1"), "run.toml:1:21: nested more than 8 levels deep");
}

// Names of very many parts would overflow the stack in toml++, before any other limit is seen.
TEST(Toml, KeysOfManyPartsAreRefusedBeforeParsing) {
  std::string deep = "a";
  for (int i = 0; i < 100000; ++i) deep += ".a";
  EXPECT_EQ(refused("\n[" + deep + "]"), "run.toml:2:35: a key of more than 17 parts");
  EXPECT_EQ(refused("x = 1\n\"=\\\"#\"." + deep + " = 1"), "run.toml:2:39: a key of more than 17 parts");
  EXPECT_EQ(refused("x = '''\n.\n''' # comment\n" + deep + " = 1"), "run.toml:4:34: a key of more than 17 parts");
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
    const std::size_t column = text.find("{a") + 2 * 17 + 1;  // of the first dot that is too many
    EXPECT_EQ(refused(text), fmt::format("run.toml:1:{}: a key of more than 17 parts", column)) << close;
  }
}

}  // namespace
}  // namespace ddpm::config
