#include "denoise/grid_map.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "denoise/stored_images.h"

namespace ddpm::denoise {
namespace {

const data::PointScales kScales = {.sides = {2, 2}, .mean = {1, 2, 3, 40}, .std = {1, 0.5, 4, 0}};

ImageRecord record(const std::vector<int64_t>& sides) {
  ImageRecord image{.height = sides[0], .width = sides[1], .dtype = base::DType::f32, .normalization = {}};
  image.fields = data::image_fields({.height = 2, .width = 2, .channels = 2, .dtype = base::DType::f32}, {}, false);
  image.fields[0].variables[1].transform = data::Transform(kScales);
  return image;
}

TEST(GridMap, HasAMeanAndADeviationForEachPoint) {
  const GridMap map(kScales, at::kCPU);
  const at::Tensor x = at::tensor({2.0, 2.0, 5.0, 41.0, 1.0, 3.0, 3.0, 40.0}).to(at::kFloat).view({2, 2, 2});
  const at::Tensor wanted = at::tensor({1.0, 0.0, 0.5, 0.0, 0.0, 2.0, 0.0, 0.0}).to(at::kFloat).view({2, 2, 2});
  EXPECT_TRUE(GridMap::seen(x, map.points().permute({0, 3, 1, 2})).equal(wanted));
}

TEST(GridMap, TheInverseGivesStoredValuesBackAndTheMeanWhereThereIsNoOther) {
  const at::Tensor seen = at::randn({3, 2, 2, 2});
  const at::Tensor stored = stored_images(seen, record({2, 2}));
  EXPECT_TRUE(stored.select(1, 0).equal(seen.select(1, 0)));
  const GridMap map(kScales, at::kCPU);
  const at::Tensor again = GridMap::seen(stored.select(1, 1), map.points().permute({0, 3, 1, 2}));
  const at::Tensor constant = stored.select(1, 1).select(1, 1).select(1, 1);
  EXPECT_TRUE(constant.eq(40.0).all().item<bool>()) << constant;
  EXPECT_LT((again - seen.select(1, 1)).flatten(1).slice(1, 0, 3).abs().max().item<float>(), 1e-5F);
}

TEST(GridMap, IsOfVolumesLayerByLayer) {
  const data::PointScales deep = {.sides = {2, 1, 3}, .mean = {0, 1, 2, 3, 4, 5}, .std = {1, 1, 1, 1, 1, 1}};
  const at::Tensor points = GridMap(deep, at::kCPU).points();
  EXPECT_EQ(points.sizes(), (std::vector<int64_t>{1, 2, 3, 2}));
  EXPECT_EQ(points[0][1][0][0].item<float>(), 3.0F);
}

TEST(GridMap, DoesNotInvertImagesOfAnotherSize) {
  EXPECT_NO_THROW(expect_invertible(record({2, 2})));
  try {
    expect_invertible(record({2, 1}));
    FAIL() << "accepted";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the transform of channel 1 is a grid (2 x 2 points), but images of "
                                                 "2 x 1 are drawn; wanted: --size 2x2"));
  }
}

}  // namespace
}  // namespace ddpm::denoise
