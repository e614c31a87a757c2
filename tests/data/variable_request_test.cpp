// Variables of foreign files as a configuration names them, and files by patterns.
#include "data/variable_request.h"

#include <fstream>

#include <gmock/gmock.h>

#include "base/error.h"
#include "data/path_pattern.h"
#include "support/temporary_folder.h"

namespace ddpm::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(VariableRequest, IsANameAndPlacesAlongAxes) {
  EXPECT_EQ(parse_request("t2m", "data.variables"), (VariableRequest{.name = "t2m", .text = "t2m"}));
  const VariableRequest chosen{
      .name = "/group/z", .choices = {{"level", 500.0}, {"number", -2.5}}, .text = "/group/z level=500 number=-2.5"};
  EXPECT_EQ(parse_request("  /group/z   level=500 number=-2.5 ", "data.variables"), chosen);
  const std::vector<VariableRequest> several = parse_requests("sst, z level=850", "data.condition");
  ASSERT_EQ(several.size(), 2U);
  EXPECT_EQ(several[0].name, "sst");
  EXPECT_THAT(several[1].choices, ElementsAre(VariableRequest::Choice{"level", 850.0}));
  EXPECT_TRUE(parse_requests("", "data.condition").empty());
}

TEST(VariableRequest, QuotesHoldNamesWithSpacesAndCommas) {
  const VariableRequest quoted{.name = "/Data Fields/rain, total = all",
                               .choices = {{"pressure level", 500.0}},
                               .text = "'/Data Fields/rain, total = all' 'pressure level'=500"};
  EXPECT_EQ(parse_request("'/Data Fields/rain, total = all'  'pressure level'=500", "data.variables"), quoted);
  const std::vector<VariableRequest> several = parse_requests("sst, 'a, b' level=1,d'x,'c'", "data.condition");
  std::vector<std::string> names;
  names.reserve(several.size());
  for (const VariableRequest& request : several) names.push_back(request.name);
  EXPECT_THAT(names, ElementsAre("sst", "a, b", "d'x", "c"));
  for (const char* text : {"'a", "''", "'a' b", "'a/'", "'a'=5", "a 'b'"}) {
    EXPECT_THROW(parse_request(text, "data.static"), base::ConfigError) << text;
  }
}

TEST(VariableRequest, NamesThatADataSetCannotHoldAreRefused) {
  const std::string escaped = "t2m\x1B";
  for (const std::string& text :
       {std::string("t2m\0zz", 6), escaped, std::string("temp\351rature"), std::string(256, 'a')}) {
    EXPECT_THAT([&] { parse_request(text, "data.variables"); },
                ThrowsMessage<base::ConfigError>(HasSubstr("1 to 255 printable ones of UTF-8 are wanted")))
        << text;
  }
}

TEST(VariableRequest, WhatIsNoneIsRefusedWithItsKey) {
  for (const char* text : {"", " ", "level=500", "z level", "z level=", "z =500", "z level=5x", "z level=inf", "a/"}) {
    EXPECT_THAT([&] { parse_request(text, "data.static"); },
                ThrowsMessage<base::ConfigError>(HasSubstr(std::string("data.static: \"") + text)))
        << text;
  }
  EXPECT_THROW(parse_requests("a,,b", "data.static"), base::ConfigError);
  EXPECT_THROW(parse_requests("a,", "data.static"), base::ConfigError);
}

class PathPattern : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* file : {"2021/b.nc", "2021/a.nc", "2022/a.nc", "2022/.hidden.nc", "2022/a.txt", "x[1].nc"}) {
      std::filesystem::create_directories((folder_.path() / file).parent_path());
      std::ofstream(folder_.path() / file) << "x";
    }
  }
  [[nodiscard]] std::vector<std::string> matches(const std::string& pattern) const {
    std::vector<std::string> names;
    for (const base::Path& path : matching_paths(folder_.path() / pattern)) {
      names.push_back(path.lexically_relative(folder_.path()).string());
    }
    return names;
  }
  test::TemporaryFolder folder_;
};

TEST_F(PathPattern, FindsFilesInBytewiseOrderOfTheirPaths) {
  EXPECT_THAT(matches("20*/*.nc"), ElementsAre("2021/a.nc", "2021/b.nc", "2022/a.nc"));
  EXPECT_THAT(matches("202?/a.nc"), ElementsAre("2021/a.nc", "2022/a.nc"));
  EXPECT_THAT(matches("202[2-9]/*"), ElementsAre("2022/a.nc", "2022/a.txt"));
}

TEST_F(PathPattern, DigestsBesideAFileAreNoData) {
  for (const char* file : {"2021/a.nc.ddpm", "2021/b.nc.ddpm", "2022/alone.ddpm"}) {
    std::ofstream(folder_.path() / file) << "x";
  }
  EXPECT_THAT(matches("2021/*"), ElementsAre("2021/a.nc", "2021/b.nc"));
  EXPECT_THAT(matches("2022/*"), ElementsAre("2022/a.nc", "2022/a.txt", "2022/alone.ddpm"));
  EXPECT_THAT(matches("2021/a.nc.ddpm"), ElementsAre("2021/a.nc.ddpm"));
}

TEST_F(PathPattern, WhatIsThereIsNoPattern) {
  EXPECT_THAT(matches("x[1].nc"), ElementsAre("x[1].nc"));
  EXPECT_THAT(matches("absent.nc"), ElementsAre("absent.nc")) << "whoever opens it says that it is absent";
}

TEST_F(PathPattern, AnEmptyResultAndAFolderThatCannotBeListedAreErrors) {
  EXPECT_THROW(matches("19*/*.nc"), base::DatasetError);
  EXPECT_THROW(matches("2021/a.nc/*"), base::DatasetError);
}

}  // namespace
}  // namespace ddpm::data
