#include "layout/range.h"

#include <gtest/gtest.h>

namespace ddpm::layout {
namespace {

TEST(EvenPart, PartsComeInOrderCoverAllAndDifferByOne) {
  for (const int64_t size : {0, 1, 2, 7, 64, 1000}) {
    for (const int64_t parts : {1, 2, 3, 8, 13}) {
      int64_t next = 0;
      for (int64_t index = 0; index < parts; ++index) {
        const Range part = even_part(size, parts, index);
        EXPECT_EQ(part.begin, next);
        EXPECT_GE(part.size(), size / parts);
        EXPECT_LE(part.size(), size / parts + 1);
        next = part.end;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(AlignedPart, InnerBordersLieOnMultiples) {
  for (const int64_t size : {0, 1, 15, 16, 17, 100, 1024}) {
    for (const int64_t parts : {1, 2, 3, 8}) {
      int64_t next = 0;
      for (int64_t index = 0; index < parts; ++index) {
        const Range part = aligned_part(size, parts, index, 16);
        EXPECT_EQ(part.begin, next);
        EXPECT_TRUE(part.end % 16 == 0 || part.end == size) << size << " " << parts << " " << index;
        next = part.end;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(Intersect, IsWhatBothCover) {
  EXPECT_EQ(intersect({0, 10}, {5, 20}), (Range{5, 10}));
  EXPECT_EQ(intersect({5, 20}, {0, 10}), (Range{5, 10}));
  EXPECT_EQ(intersect({2, 4}, {0, 10}), (Range{2, 4}));
  EXPECT_TRUE(intersect({0, 5}, {5, 9}).empty());
  EXPECT_TRUE(intersect({0, 3}, {7, 9}).empty());
}

}  // namespace
}  // namespace ddpm::layout
