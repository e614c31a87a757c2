// The test of a rank histogram rejects perfect models as often as it says, and others more often.
#include "eval/rank_test.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"
#include "comm/solo_communicator.h"

namespace ddpm::eval {
namespace {

constexpr std::size_t kPixels = 8;

/// What forecasts are made of: the truth of each condition lies `off` beyond the middle of its members, and `shared` of
/// each field's variance is that of a number which all of its pixels have in common.
struct Forecasts {
  int64_t conditions = 10;
  int64_t members = 8;
  double shared = 0.95;
  double off = 0.0;
};

double p_value_of(const Forecasts& made, uint64_t seed, bool rounded = false) {
  comm::SoloCommunicator alone;
  const ExchangeSums at{.first = 1, .members = made.members};
  BlockSums sums(made.conditions, 1 + at.size());
  const auto fields = static_cast<std::size_t>(made.members) + 1;
  sums.fill(alone, [&](int64_t condition, std::span<double> block) {
    std::vector<float> normals(fields * (kPixels + 1));
    base::RandomSequence(seed, base::Stream::noise, 0, static_cast<uint64_t>(condition)).fill_normal(normals);
    std::vector<float> values(fields * kPixels);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double common = normals[fields * kPixels + i / kPixels];
      const double value =
          std::sqrt(made.shared) * common + std::sqrt(1.0 - made.shared) * normals[i] + (i < kPixels ? made.off : 0.0);
      values[i] = static_cast<float>(rounded ? std::round(value) : value);
    }
    const std::vector<uint8_t> valid(kPixels, 1);
    at.add(std::span(values).subspan(kPixels), kPixels, std::span(values).first(kPixels), valid,
           {.condition = static_cast<uint64_t>(condition), .variable = 0}, block);
  });
  sums.share(alone);
  return exchange_p_value(sums, at);
}

int rejected(const Forecasts& made, int sets, bool rounded = false) {
  int count = 0;
  for (int set = 0; set < sets; ++set) count += p_value_of(made, 100 + static_cast<uint64_t>(set), rounded) <= 0.05;
  return count;
}

/// 5 % of 200 are 10, with a deviation of 3.1. Chi-squared with the correction of Rao and Scott rejects 20 to 40.
TEST(RankTest, RejectsPerfectModelsAsOftenAsItSays) {
  for (const int64_t conditions : {3, 10, 30}) {
    for (const int64_t members : {8, 20}) {
      const int count = rejected({.conditions = conditions, .members = members}, 200);
      EXPECT_LE(count, 20) << conditions << " conditions, " << members << " members";
      EXPECT_GE(count, 2) << conditions << " conditions, " << members << " members";
    }
  }
  EXPECT_LE(rejected({}, 200, /*rounded=*/true), 20) << "of values that are often equal";
  EXPECT_LE(rejected({.shared = 0.0}, 200), 20) << "of independent pixels";
}

TEST(RankTest, FindsModelsThatAreOff) {
  EXPECT_GE(rejected({.off = 1.5}, 20), 18);
  EXPECT_GE(rejected({.conditions = 3, .shared = 0.0, .off = 2.0}, 20), 18);
  EXPECT_EQ(p_value_of({.off = 100.0}, 1), 1e-4);  // the least of 9999 draws
}

TEST(RankTest, HasNoAnswerWhereNothingCouldBeRejected) {
  EXPECT_TRUE(std::isnan(p_value_of({.conditions = 1, .members = 8, .off = 100.0}, 1)));  // 1 / 9 at the least
  EXPECT_FALSE(std::isnan(p_value_of({.conditions = 2, .members = 8}, 1)));
}

TEST(RankTest, OfManyMembersSomeTakeTheTruthsPlace) {
  const ExchangeSums at{.first = 0, .members = 100};
  EXPECT_EQ(at.size(), 21 * 101);
  EXPECT_EQ((ExchangeSums{.members = 5000}.size()), 4 * 5001);
  EXPECT_LE(p_value_of({.members = 100, .off = 100.0}, 1), 1e-3);
}

}  // namespace
}  // namespace ddpm::eval
