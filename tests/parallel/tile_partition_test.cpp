// Every golden model over tiles, one on each rank: what diffusers predicts of whole images, and its gradients.
#include "parallel/tile_partition.h"

#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "nn/golden_gradients.h"
#include "parallel/over_ranks.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

using nn::test::GoldenCase;

/// Ways to cut images over so many ranks.
std::vector<std::vector<int64_t>> cuts_over(int64_t ranks) {
  std::vector<std::vector<int64_t>> cuts = {{ranks, 1}, {1, ranks}};
  if (ranks == 4) cuts.push_back({2, 2});
  return cuts;
}

class Tiled : public testing::TestWithParam<std::filesystem::path> {
 protected:
  Tiled() : golden_(nn::test::read_golden(GetParam())), unet_(nn::test::config_from_json(golden_.config)) {}

  /// Calls `check` with each partition that the images allow.
  template <typename Check>
  void for_partitions(const Check& check) const {
    const std::vector<int64_t> sides = {golden_.x.size(2), golden_.x.size(3)};
    const int64_t unit = nn::size_multiple(unet_.config());
    for (const std::vector<int64_t>& parts : cuts_over(world_.size())) {
      if (!layout::Tiling::refusal(sides, parts, unit).empty()) continue;
      SCOPED_TRACE(testing::Message() << parts[0] << " x " << parts[1]);
      check(TilePartition(layout::Tiling(sides, parts, unit), unet_.image_shape(), &world_));
    }
  }

  GoldenCase golden_;
  nn::UNet2D unet_;
  comm::Communicator& world_ = ddpm::test::world();
};

TEST_P(Tiled, PredictsWhatDiffusersPredicts) {
  const at::NoGradGuard no_grad;
  nn::test::bind_weights(unet_.parameters(), golden_, at::kFloat);
  for_partitions([&](const TilePartition& tile) {
    const at::Tensor y = unet_.forward(tile.cut(golden_.x), golden_.timesteps, golden_.class_labels, {}, tile);
    EXPECT_LT(test::relative_error(y, tile.cut(golden_.output), world_), golden_.exact ? 2e-5 : 1e-5);
  });
}

TEST_P(Tiled, GradientsOfTheTilesAddUpToThoseOfDiffusers) {
  for_partitions([&](const TilePartition& tile) {
    nn::test::bind_weights(unet_.parameters(), golden_, at::kFloat);
    const at::Tensor y = unet_.forward(tile.cut(golden_.x), golden_.timesteps, golden_.class_labels, {}, tile);
    const at::Tensor errors = (y - tile.cut(golden_.target)).square();
    (errors.sum() / static_cast<double>(golden_.target.numel())).backward();
    test::sum_gradients(unet_, world_);
    nn::test::expect_gradients(unet_, golden_);
  });
}

TEST(TilesOfImages, AreWholeAgain) {
  comm::Communicator& world = ddpm::test::world();
  const auto expect_whole = [&](const std::vector<int64_t>& sides, const std::vector<int64_t>& parts) {
    const layout::Tiling tiling(sides, parts, 2);
    if (tiling.count() != world.size()) return;
    const TilePartition tile(tiling, {.depth = sides.size() == 3 ? sides[0] : 0, .width = sides.back()}, &world);
    const int64_t rows = sides.size() == 3 ? sides[0] * sides[1] : sides[0];
    const at::Tensor images = at::arange(2 * 3 * rows * sides.back()).view({2, 3, rows, sides.back()}).to(at::kFloat);
    EXPECT_TRUE(at::equal(tile.whole(tile.cut(images)), images));
  };
  expect_whole({14, 10}, {world.size(), 1});  // parts of different sizes
  expect_whole({14, 10}, {1, world.size()});
  expect_whole({10, 6}, {2, 2});
  expect_whole({6, 10, 4}, {1, world.size(), 1});
  expect_whole({6, 10, 4}, {2, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(Files, Tiled, testing::ValuesIn(nn::test::golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace ddpm::parallel
