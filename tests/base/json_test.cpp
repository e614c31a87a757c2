#include "base/json.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, limits);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Json, BuildsWhatTheLibraryBuilds) {
  const std::string text = R"({"a": [1, -2, 3.5, true, false, null, "x\u00e9\n"], "b": {"c": {}, "d": []},
                             "big": 18446744073709551615})";
  EXPECT_EQ(parse_json(text), Json::parse(text));
  EXPECT_EQ(parse_json("[[], [1, [2, {\"k\": [3]}], 4], 5]"), Json::parse("[[], [1, [2, {\"k\": [3]}], 4], 5]"));
  EXPECT_EQ(parse_json(" 7 "), Json(7));
}

TEST(Json, BadSyntaxNamesThePosition) {
  EXPECT_THAT(refusal("{\"a\": }"), StartsWith("byte 7: "));
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "01", "nul", "\"\\x\"", "[1] 2", "{'a': 1}", "NaN", "1e999",
                           "\"\xff\"", "// comment\n1"}) {
    EXPECT_THAT(refusal(text), StartsWith("byte ")) << text;
  }
}

TEST(Json, NothingHidesBehindAZeroByte) {
  using namespace std::string_view_literals;
  EXPECT_EQ(refusal("123\0"sv), "byte 3: syntax error, a zero byte");
  EXPECT_EQ(refusal("{}\0{\"a\": 1}"sv), "byte 2: syntax error, a zero byte");
  EXPECT_EQ(refusal("[\"a\0b\"]"sv), "byte 3: syntax error, a zero byte");
  EXPECT_EQ(refusal("[\"a\\u0000b\"]"sv), "accepted");
}

TEST(Json, DuplicateKeysAreRefusedAtAnyDepth) {
  EXPECT_THAT(refusal(R"({"a": 1, "a": 1})"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(refusal(R"([{"x": {"b": 1, "c": 2, "b": 3}}])"), HasSubstr("duplicate key \"b\""));
  EXPECT_EQ(refusal(R"([{"a": 1}, {"a": 2}])"), "accepted");
}

TEST(Json, DepthIsLimited) {
  const JsonLimits limits{.max_bytes = 1000000, .max_depth = 3};
  EXPECT_EQ(refusal("[[[1]]]", limits), "accepted");
  EXPECT_EQ(refusal("[[[[1]]]]", limits), "byte 4: nested more than 3 levels deep");
  EXPECT_THAT(refusal(R"({"a": {"b": {"c": {}}}})", limits), HasSubstr("nested more than 3 levels deep"));
  EXPECT_THAT(refusal(std::string(500000, '['), limits), HasSubstr("nested more than 3 levels deep"));
}

TEST(Json, SizeIsLimited) {
  const JsonLimits limits{.max_bytes = 8, .max_depth = 3};
  EXPECT_EQ(refusal("[1, 2,3]", limits), "accepted");
  EXPECT_EQ(refusal("[1, 2, 3]", limits), "9 bytes of JSON, at most 8 are accepted");
}

TEST(Json, TheNumberOfValuesIsLimited) {
  const JsonLimits limits{.max_bytes = 100, .max_depth = 3, .max_values = 4};
  EXPECT_EQ(refusal("[1,2,{\"a\": 1}]", limits), "byte 13: more than 4 values");
  EXPECT_EQ(refusal("[1,2,[]]", limits), "accepted");
}

TEST(Json, ItemsOfListsAreHandedOverAsTheyAreRead) {
  std::vector<std::string> seen;
  const auto sink = [&](const Json& read, const Json& item) {
    seen.push_back(fmt::format("{} after {}", item.dump(), read.dump()));
  };
  const Json rest = parse_json_lists(
      R"({"a": 1, "list": [{"x": [{"y": 2}]}, 7, {}], "other": [{"z": 3}], "deep": {"list": [{"w": 4}]}})", {},
      {{"list", sink}});
  EXPECT_EQ(seen, (std::vector<std::string>{R"({"x":[{"y":2}]} after {"a":1,"list":[{"x":[{"y":2}]}]})",
                                            R"({} after {"a":1,"list":[7,{}]})"}));
  EXPECT_EQ(rest, Json::parse(R"({"a": 1, "list": [7], "other": [{"z": 3}], "deep": {"list": [{"w": 4}]}})"));
  EXPECT_THROW(parse_json_lists(R"({"list": [{"x": 1, "x": 2}]})", {}, {{"list", sink}}), std::invalid_argument);
  EXPECT_THROW(parse_json_lists(R"({"list": [{}, {}]})", {.max_values = 3}, {{"list", sink}}), std::invalid_argument);
  EXPECT_TRUE(parse_json_lists("[{}]", {}, {{"list", sink}}).is_array());
}

TEST(Json, AReasonIsAsShortAsALineEvenWhenTheTextIsNot) {
  const std::string much(100000, 'x');
  EXPECT_LT(refusal(fmt::format("[\"{}\" 1]", much)).size(), 400U);
  EXPECT_LT(refusal(fmt::format("[\"{}\x01\"]", much)).size(), 400U);
  EXPECT_LT(refusal(fmt::format("{{\"{0}\": 1, \"{0}\": 1}}", much)).size(), 400U);
  EXPECT_EQ(excerpt(Json(much)), fmt::format("\"{}...", much.substr(0, 79)));
  EXPECT_EQ(excerpt(Json("a\nb")), R"("a\nb")");
  const Json long_one = {{"list", {std::string(1000, 'a'), "b"}}, {"number", 3}};
  EXPECT_EQ(with_short_texts(long_one), (Json{{"list", {std::string(512, 'a') + "...", "b"}}, {"number", 3}}));
}

}  // namespace
}  // namespace ddpm::base
