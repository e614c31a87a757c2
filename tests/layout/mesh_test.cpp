#include "layout/mesh.h"

#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::layout {
namespace {

Mesh mesh_of(int64_t replicate, int64_t shard) {
  return {{{.axis = Axis::replicate, .ranks = replicate}, {.axis = Axis::shard, .ranks = shard}}, replicate * shard};
}

/// Calls `check` with many grids, those with an axis of one rank among them.
template <typename Check>
void for_many_meshes(const Check& check) {
  for (int64_t replicate = 1; replicate <= 9; ++replicate) {
    for (int64_t shard = 1; shard <= 9; ++shard) {
      SCOPED_TRACE(testing::Message() << replicate << " x " << shard);
      check(mesh_of(replicate, shard));
    }
  }
}

TEST(Mesh, CoordinatesAreABijection) {
  for_many_meshes([](const Mesh& mesh) {
    std::set<std::pair<int64_t, int64_t>> seen;
    for (int64_t rank = 0; rank < mesh.size(); ++rank) {
      const int64_t replicate = mesh.coordinate(rank, Axis::replicate);
      const int64_t shard = mesh.coordinate(rank, Axis::shard);
      EXPECT_TRUE(replicate >= 0 && replicate < mesh.degree(Axis::replicate)) << replicate;
      EXPECT_TRUE(shard >= 0 && shard < mesh.degree(Axis::shard)) << shard;
      EXPECT_TRUE(seen.emplace(replicate, shard).second) << rank;
    }
  });
}

TEST(Mesh, GroupsPartitionTheWorld) {
  for_many_meshes([](const Mesh& mesh) {
    for (const Axes axes : {Axes(Axis::replicate), Axes(Axis::shard), kDataParallel}) {
      std::vector<int64_t> all;
      for (int64_t group = 0; group < mesh.size() / mesh.degree(axes); ++group) {
        const std::vector<int64_t> members = mesh.ranks(group, axes);
        ASSERT_EQ(std::ssize(members), mesh.degree(axes));
        for (std::size_t place = 0; place < members.size(); ++place) {
          EXPECT_EQ(mesh.group(members[place], axes), group);
          EXPECT_EQ(mesh.coordinate(members[place], axes), static_cast<int64_t>(place));
        }
        all.insert(all.end(), members.begin(), members.end());
      }
      std::ranges::sort(all);
      ASSERT_EQ(std::ssize(all), mesh.size());
      for (int64_t rank = 0; rank < mesh.size(); ++rank) EXPECT_EQ(all[static_cast<std::size_t>(rank)], rank);
    }
  });
}

// A rank's group along one axis is its number along the others, and two such groups share that rank alone.
TEST(Mesh, GroupsOfDifferentAxesCrossOnce) {
  for_many_meshes([](const Mesh& mesh) {
    for (int64_t rank = 0; rank < mesh.size(); ++rank) {
      EXPECT_EQ(mesh.group(rank, Axis::shard), mesh.coordinate(rank, Axis::replicate));
      EXPECT_EQ(mesh.group(rank, Axis::replicate), mesh.coordinate(rank, Axis::shard));
      const auto copies = mesh.ranks(mesh.group(rank, Axis::replicate), Axis::replicate);
      const auto shards = mesh.ranks(mesh.group(rank, Axis::shard), Axis::shard);
      std::vector<int64_t> both;
      std::ranges::set_intersection(copies, shards, std::back_inserter(both));
      EXPECT_EQ(both, std::vector<int64_t>{rank});
    }
  });
}

TEST(Mesh, AShardGroupIsRanksInARow) {
  const Mesh mesh = mesh_of(3, 4);
  EXPECT_EQ(mesh.ranks(1, Axis::shard), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(mesh.ranks(1, Axis::replicate), (std::vector<int64_t>{1, 5, 9}));
  EXPECT_EQ(mesh.coordinate(6, kDataParallel), 6);
  EXPECT_EQ(mesh.group(6, kDataParallel), 0);
}

TEST(Mesh, AnAxisThatIsNotThereHasOneRank) {
  const Mesh one;
  EXPECT_EQ(one.size(), 1);
  EXPECT_EQ(one.degree(kDataParallel), 1);
  EXPECT_EQ(one.coordinate(0, Axis::shard), 0);
  const Mesh copies({{.axis = Axis::replicate, .ranks = 5}}, 5);
  EXPECT_EQ(copies.degree(Axis::shard), 1);
  EXPECT_EQ(copies.coordinate(3, Axis::shard), 0);
  EXPECT_EQ(copies.coordinate(3, kDataParallel), 3);
}

TEST(Mesh, RefusesWithAllTheNumbers) {
  const auto refusal = [](int64_t replicate, int64_t shard, int64_t ranks) -> std::string {
    try {
      const Mesh mesh({{.axis = Axis::replicate, .ranks = replicate}, {.axis = Axis::shard, .ranks = shard}}, ranks);
    } catch (const base::ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(2, 4, 8), "accepted");
  EXPECT_EQ(refusal(2, 3, 8),
            "parallel.dp_shard_size = 3 × parallel.dp_replicate_size = 2 is 6; it must be the number of ranks, 8");
  EXPECT_EQ(refusal(0, 16, 8),
            "parallel.dp_shard_size = 16 × parallel.dp_replicate_size = 0 is 0; it must be the number of ranks, 8");
  EXPECT_NE(refusal(-2, -4, 8), "accepted");
  EXPECT_NE(refusal(int64_t{1} << 40, int64_t{1} << 40, 8), "accepted");
  EXPECT_NE(refusal(int64_t{1} << 32, int64_t{1} << 32, 0), "accepted");
}

}  // namespace
}  // namespace ddpm::layout
