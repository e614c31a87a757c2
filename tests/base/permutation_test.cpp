#include <array>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace ddpm::base {
namespace {

Permutation of_size(uint64_t size, uint64_t epoch = 0, uint64_t seed = 7) {
  return {seed, Stream::shuffle, epoch, 0, size};
}

TEST(Permutation, IsABijectionAndInverseUndoesIt) {
  for (const uint64_t size : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 16U, 17U, 63U, 64U, 65U, 1000U, 1024U, 4095U, 4096U, 4097U}) {
    const Permutation permutation = of_size(size);
    std::vector<int> hits(size, 0);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t image = permutation(i);
      ASSERT_LT(image, size);
      ++hits[image];
      ASSERT_EQ(permutation.inverse(image), i) << "size " << size;
    }
    for (const int count : hits) ASSERT_EQ(count, 1) << "size " << size;
  }
}

TEST(Permutation, ReachesSizesThatNoTableCouldHold) {
  for (const uint64_t size : {uint64_t{1} << 32U, (uint64_t{1} << 33U) + 5, ~uint64_t{0}}) {
    const Permutation permutation = of_size(size);
    for (const uint64_t i : {uint64_t{0}, uint64_t{1}, size / 2, size - 1}) {
      const uint64_t image = permutation(i);
      EXPECT_LT(image, size);
      EXPECT_EQ(permutation.inverse(image), i);
    }
  }
}

TEST(Permutation, DependsOnSeedStepPositionAndStream) {
  constexpr uint64_t kSize = 1000;
  const Permutation reference(7, Stream::shuffle, 3, 2, kSize);
  for (const Permutation& other :
       {Permutation(8, Stream::shuffle, 3, 2, kSize), Permutation(7, Stream::flip, 3, 2, kSize),
        Permutation(7, Stream::shuffle, 4, 2, kSize), Permutation(7, Stream::shuffle, 3, 1, kSize),
        Permutation(7 + (uint64_t{1} << 32U), Stream::shuffle, 3, 2, kSize)}) {
    int equal = 0;
    for (uint64_t i = 0; i < kSize; ++i) equal += reference(i) == other(i) ? 1 : 0;
    EXPECT_LT(equal, 10);  // one is expected; a Poisson count of ten or more has a chance of 1e-7
  }
}

// Every order of three and every place of the first of eight, over many epochs.
TEST(Permutation, IsUniformOverEpochs) {
  constexpr int kEpochs = 6000;
  std::array<int, 27> orders{};
  std::array<int, 8> places{};
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation three = of_size(3, epoch);
    ++orders[three(0) * 9 + three(1) * 3 + three(2)];
    ++places[of_size(8, epoch)(0)];
  }
  for (const std::size_t order : {5U, 7U, 11U, 15U, 19U, 21U}) EXPECT_NEAR(orders[order], kEpochs / 6.0, 150) << order;
  for (const int count : places) EXPECT_NEAR(count, kEpochs / 8.0, 130);  // five standard deviations
}

// Neighbours must not stay neighbours: the mean distance of two numbers drawn at random from [0, n) is n / 3.
TEST(Permutation, ScattersNeighbours) {
  constexpr uint64_t kSize = 4097;
  const Permutation permutation = of_size(kSize);
  double sum = 0;
  for (uint64_t i = 0; i + 1 < kSize; ++i) {
    sum += std::abs(static_cast<double>(permutation(i)) - static_cast<double>(permutation(i + 1)));
  }
  EXPECT_NEAR(sum / static_cast<double>(kSize - 1), kSize / 3.0, 80.0);
}

TEST(Permutation, RefusesWhatItDoesNotHold) {
  EXPECT_THROW(of_size(0), InternalError);
  EXPECT_THROW((void)of_size(10)(10), InternalError);
  EXPECT_THROW((void)of_size(10).inverse(10), InternalError);
}

}  // namespace
}  // namespace ddpm::base
