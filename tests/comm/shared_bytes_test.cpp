#include "comm/shared_bytes.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "support/mpi_test.h"

namespace ddpm::comm {
namespace {

Communicator& world() { return test::world(); }

std::byte value_at(int64_t place) { return static_cast<std::byte>(place * 31 % 251); }

/// What each rank writes: a tenth of the bytes, but for the last one, which writes the rest.
std::vector<WrittenBytes> parts_of(int64_t bytes) {
  std::vector<WrittenBytes> parts;
  for (int rank = 0; rank < world().size(); ++rank) {
    const bool last = rank + 1 == world().size();
    parts.push_back({bytes / 10 * rank, last ? bytes : bytes / 10 * (rank + 1), rank});
  }
  return parts;
}

void fill(SharedBytes& shared) {
  const auto parts = parts_of(static_cast<int64_t>(shared.bytes().size()));
  const WrittenBytes own = parts[static_cast<std::size_t>(world().rank())];
  for (int64_t i = own.begin; i < own.end; ++i) shared.bytes()[static_cast<std::size_t>(i)] = value_at(i);
  shared.spread(parts);
}

bool is_whole(const SharedBytes& shared) {
  int64_t place = 0;
  return std::ranges::all_of(shared.bytes(), [&](std::byte value) { return value == value_at(place++); });
}

/// This process's share of the memory that it has, shared memory divided by the number of those who have it.
int64_t proportional_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == "Pss:" && file >> kib) return kib * 1024;
  }
  ADD_FAILURE() << "/proc/self/smaps_rollup has no Pss";
  return 0;
}

TEST(SharedBytes, AreOnAllRanksWhatEachHasWritten) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{999}, 3 * SharedBytes::kWorthSharing}) {
    for (const int64_t worth_sharing : {int64_t{1}, int64_t{1} << 40}) {
      SharedBytes shared(world(), bytes, worth_sharing);
      ASSERT_EQ(shared.bytes().size(), static_cast<std::size_t>(bytes));
      fill(shared);
      EXPECT_TRUE(is_whole(shared)) << bytes;
      shared.close();
      EXPECT_TRUE(shared.bytes().empty());
    }
  }
}

TEST(SharedBytes, TakeTheMemoryOfOneCopyOnAHost) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const auto taken = [&](int64_t worth_sharing) {
    barrier(world());
    const int64_t before = proportional_bytes();
    barrier(world());
    SharedBytes shared(world(), kBytes, worth_sharing);
    fill(shared);
    EXPECT_TRUE(is_whole(shared));  // every rank has touched all of it
    barrier(world());
    const int64_t here = proportional_bytes() - before;
    const int64_t all = all_reduce(world(), here, ReduceOp::sum);
    shared.close();
    return static_cast<double>(all) / static_cast<double>(kBytes);
  };
  EXPECT_NEAR(taken(1), 1.0, 0.25);
  EXPECT_NEAR(taken(kBytes + 1), world().size(), 0.25);
}

TEST(SharedBytes, AreGivenUpWithoutOtherRanks) {
  { const SharedBytes forgotten(world(), 2 * SharedBytes::kWorthSharing); }
  EXPECT_EQ(all_reduce(world(), int64_t{1}, ReduceOp::sum), world().size());  // also in MPI_Finalize
}

}  // namespace
}  // namespace ddpm::comm
