// Rows of lists of unlike length are paired by what they are.
#include "eval/same_rows.h"

#include <gtest/gtest.h>

namespace ddpm::eval {
namespace {

using Places = std::vector<std::vector<std::size_t>>;

const RowName kMean = {.name = "mean", .variable = "red"};
const RowName kBlueMean = {.name = "mean", .variable = "blue"};
const RowName kLow = {.name = "spectrum", .variable = "red", .level = "k 1"};
const RowName kHigh = {.name = "spectrum", .variable = "red", .level = "k 2-3"};

TEST(SameRows, AreThoseThatAllListsHaveWhereverTheyStand) {
  const std::vector<std::vector<RowName>> lists = {
      {kMean, kLow, kHigh}, {kLow, kBlueMean, kMean}, {kMean, kHigh, kLow}};
  EXPECT_EQ(same_rows(lists), (Places{{0, 2, 0}, {1, 0, 2}}));
  const std::vector<std::vector<RowName>> reversed(lists.rbegin(), lists.rend());
  EXPECT_EQ(same_rows(reversed), (Places{{0, 2, 0}, {2, 0, 1}}));
}

TEST(SameRows, OfOneNameArePairedInTheirOrder) {
  const std::vector<std::vector<RowName>> lists = {{kMean, kLow, kMean, kMean}, {kMean, kMean, kLow}};
  EXPECT_EQ(same_rows(lists), (Places{{0, 0}, {1, 2}, {2, 1}}));
}

TEST(SameRows, OfOneListAreAllOfIt) {
  const std::vector<std::vector<RowName>> one = {{kMean, kLow}};
  EXPECT_EQ(same_rows(one), (Places{{0}, {1}}));
  EXPECT_TRUE(same_rows({}).empty());
}

}  // namespace
}  // namespace ddpm::eval
