#include "doctor/greeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpm::doctor {
namespace {

template <std::size_t N>
void put(std::array<char, N>& field, const std::string& text) {
  field.fill('\0');
  text.copy(field.data(), N - 1);
}

std::vector<Greeting> four_ranks() {
  std::vector<Greeting> all(4, make_greeting("options", ""));
  for (std::size_t rank = 0; rank < all.size(); ++rank) put(all[rank].host, rank < 2 ? "node00" : "node01");
  return all;
}

TEST(Greeting, RanksOfOneProgramMayGoOn) { EXPECT_TRUE(judge_greetings(four_ranks()).empty()); }

TEST(Greeting, OfAnotherProgramIsAProblemThatNamesItsRank) {
  auto all = four_ranks();
  put(all[3].program, "0123456789abcdef");
  const auto findings = judge_greetings(all);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].seen, testing::HasSubstr("file 0123456789ab on rank 3 on node01"));
  EXPECT_EQ(exit_code_of(findings), base::ExitCode::communication);
}

TEST(Greeting, WithOtherOptionsToo) {
  auto all = four_ranks();
  put(all[0].options, "others");
  const auto findings = judge_greetings(all);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].seen, testing::HasSubstr("others on rank 0 on node00"));
}

TEST(Greeting, LongTextsAreCutToTheirFields) {
  const Greeting greeting = make_greeting(std::string(1000, 'x'), "node00");
  EXPECT_EQ(std::string(greeting.options.data()), std::string(greeting.options.size() - 1, 'x'));
  EXPECT_EQ(std::string(greeting.host.data()), "node00");
}

}  // namespace
}  // namespace ddpm::doctor
