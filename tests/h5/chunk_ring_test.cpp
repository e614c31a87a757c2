// Chunks that several readers keep in one ring.
#include "h5/chunk_ring.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ddpm::h5 {
namespace {

constexpr std::size_t kRing = std::size_t{64} << 10U;

/// The values of the chunk of this key, whose length follows from it, too.
std::vector<std::byte> values_of(uint64_t key) {
  std::vector<std::byte> values(1000 + key * 337 % 9000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(key * 31 + i * (key % 7 + 1));
  return values;
}

class ChunkRingTest : public testing::Test {
 protected:
  /// Whether the chunk is there, and then with its values.
  static testing::AssertionResult has(const ChunkRing& ring, uint64_t key, uint64_t file = 0) {
    const std::vector<std::byte> wanted = values_of(key);
    std::vector<std::byte> out(wanted.size());
    const std::vector<Line> lines = {{.from = 500, .to = 0, .bytes = wanted.size() - 500},
                                     {.from = 0, .to = wanted.size() - 500, .bytes = 500}};
    if (!ring.read({.file = file, .offset = key}, lines, out))
      return testing::AssertionFailure() << "chunk " << key << " is not there";
    std::ranges::rotate(out, out.end() - 500);
    EXPECT_EQ(out, wanted) << "other values of chunk " << key;
    return testing::AssertionSuccess();
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(ChunkRing::head_bytes() + kRing);
};

TEST_F(ChunkRingTest, GivesBackWhatWasPutIn) {
  ChunkRing ring(memory_);
  EXPECT_FALSE(has(ring, 1));
  for (const uint64_t key : {1, 2, 3}) ring.put({.offset = key}, values_of(key));
  const ChunkRing other(memory_);  // as another rank sees it
  for (const uint64_t key : {1, 2, 3}) EXPECT_TRUE(has(other, key));
  EXPECT_FALSE(has(other, 4));
}

TEST_F(ChunkRingTest, AChunkOfAnotherFileIsNotThere) {
  ChunkRing ring(memory_);
  ring.put({.file = 3, .offset = 1}, values_of(1));
  EXPECT_TRUE(has(ring, 1, 3));
  for (unsigned bit = 0; bit < 64; ++bit) EXPECT_FALSE(has(ring, 1, 3U ^ uint64_t{1} << bit)) << bit;
}

TEST_F(ChunkRingTest, TheOldestMakeRoom) {
  ChunkRing ring(memory_);
  for (uint64_t key = 0; key < 1000; ++key) {
    ring.put({.offset = key}, values_of(key));
    ASSERT_TRUE(has(ring, key));
    if (key >= 4) {
      ASSERT_TRUE(has(ring, key - 4));  // of 10 kB at most each
    }
  }
  EXPECT_FALSE(has(ring, 900));
}

TEST_F(ChunkRingTest, TakesNoChunkThatWouldFillIt) {
  ChunkRing ring(memory_);
  const std::vector<std::byte> large(kRing / 4);
  ring.put({.offset = 7}, large);
  std::vector<std::byte> out(large.size());
  EXPECT_FALSE(ring.read({.offset = 7}, std::vector<Line>{{.from = 0, .to = 0, .bytes = large.size()}}, out));
}

TEST_F(ChunkRingTest, ManyWhoReadAndWriteNeverSeeOtherValues) {
  std::atomic<int> found{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        ChunkRing ring(memory_);
        std::mt19937 random(t);
        for (int i = 0; i < 20'000; ++i) {
          const uint64_t key = random() % 20;
          if (has(ring, key)) {
            ++found;
          } else {
            ring.put({.offset = key}, values_of(key));
          }
        }
      });
    }
  }
  EXPECT_GT(found, 1000);
}

}  // namespace
}  // namespace ddpm::h5
