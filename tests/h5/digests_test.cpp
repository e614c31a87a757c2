// Digests of runs of bytes in a file: which are refused, and what is compared.
#include "h5/digests.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/error.h"

namespace ddpm::h5 {
namespace {

using base::DatasetError;
using testing::HasSubstr;

/// Bytes 100 to 125 in blocks of 10, and 200 to 240 in one.
class DigestsTest : public testing::Test {
 protected:
  static std::vector<DigestRun> good_runs() {
    return {{.offset = 100, .bytes = 25, .first = 0, .block = 10},
            {.offset = 200, .bytes = 40, .first = 3, .block = 40}};
  }
  DigestsTest() {
    for (std::size_t i = 0; i < file_.size(); ++i) file_[i] = static_cast<std::byte>(i * 7);
    for (const auto& [begin, bytes] :
         std::vector<std::pair<uint64_t, uint64_t>>{{100, 10}, {110, 10}, {120, 5}, {200, 40}})
      sums_.push_back(base::crc32c(std::span(file_).subspan(begin, bytes)));
  }
  /// What a comparison of these bytes says.
  std::string said(uint64_t offset, uint64_t bytes) const {
    try {
      Digests(runs_, sums_, file_.size(), "digests").compare(offset, std::span(file_).subspan(offset, bytes), "/t");
    } catch (const DatasetError& error) {
      return error.what();
    }
    return "equal";
  }
  std::string refusal_of(const std::vector<DigestRun>& runs) const {
    try {
      const Digests digests(runs, sums_, file_.size(), "digests");
    } catch (const DatasetError& error) {
      return error.what();
    }
    return "accepted";
  }

  std::vector<std::byte> file_ = std::vector<std::byte>(300);
  std::vector<DigestRun> runs_ = good_runs();
  std::vector<uint32_t> sums_;
};

TEST_F(DigestsTest, WholeBlocksAreCompared) {
  EXPECT_EQ(said(100, 25), "equal");
  EXPECT_EQ(said(110, 10), "equal");
  EXPECT_EQ(said(110, 15), "equal");
  EXPECT_EQ(said(200, 40), "equal");
  file_[121] ^= std::byte{1};
  EXPECT_EQ(said(100, 20), "equal");
  EXPECT_THAT(said(100, 25), HasSubstr("/t: 5 bytes at byte 120 have the CRC-32C"));
}

TEST_F(DigestsTest, OtherPiecesCannotBeCompared) {
  for (const auto& [begin, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{{105, 10}, {100, 9}, {200, 39}}) {
    EXPECT_THAT(said(begin, bytes), HasSubstr("are of other pieces"));
  }
  for (const auto& [begin, bytes] :
       std::vector<std::pair<uint64_t, uint64_t>>{{100, 26}, {90, 10}, {190, 50}, {240, 1}}) {
    EXPECT_THAT(said(begin, bytes), HasSubstr("there are no digests"));
  }
}

TEST_F(DigestsTest, AReadGrowsToWholeBlocks) {
  const Digests digests(runs_, sums_, file_.size(), "digests");
  const auto grown = [&](uint64_t offset, uint64_t bytes) {
    const Extent all = digests.whole_blocks({.offset = offset, .bytes = bytes}, "/t");
    return std::pair(all.offset, all.bytes);
  };
  EXPECT_EQ(grown(105, 1), std::pair(uint64_t{100}, uint64_t{10}));
  EXPECT_EQ(grown(109, 2), std::pair(uint64_t{100}, uint64_t{20}));
  EXPECT_EQ(grown(119, 3), std::pair(uint64_t{110}, uint64_t{15}));
  EXPECT_EQ(grown(239, 1), std::pair(uint64_t{200}, uint64_t{40}));
  EXPECT_TRUE(digests.holds(100) && digests.holds(124) && digests.holds(239));
  EXPECT_FALSE(digests.holds(99) || digests.holds(125) || digests.holds(240));
}

TEST_F(DigestsTest, RunsThatCannotBeAreRefused) {
  EXPECT_EQ(refusal_of(runs_), "accepted");
  const auto changed = [&](const auto& change) {
    std::vector<DigestRun> runs = good_runs();
    change(runs);
    return refusal_of(runs);
  };
  EXPECT_THAT(changed([](auto& runs) { runs[1].offset = 124; }), HasSubstr("digests: it gives digests of 40 bytes"));
  EXPECT_THAT(changed([](auto& runs) { runs[1].bytes = 101; }), HasSubstr("it gives digests"));
  EXPECT_THAT(changed([](auto& runs) { runs[1].bytes = UINT64_MAX - 100; }), HasSubstr("it gives digests"));
  EXPECT_THAT(changed([](auto& runs) { runs[0].block = 0; }), HasSubstr("it gives digests"));
  EXPECT_THAT(changed([](auto& runs) { runs[1].first = 2; }), HasSubstr("it gives digests"));
  EXPECT_THAT(changed([](auto& runs) { runs.pop_back(); }), HasSubstr("it holds 4 digests, 3 are wanted"));
}

}  // namespace
}  // namespace ddpm::h5
