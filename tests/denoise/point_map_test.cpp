#include "denoise/point_map.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "denoise/stored_images.h"

namespace ddpm::denoise {
namespace {

const std::vector<double> kFrom = {-1.0, 0.0, 4.0};
const std::vector<double> kTo = {-2.0, 0.5, 1.0};

TEST(PointMap, IsStraightLinesBetweenThePointsAndBeyondThem) {
  const PointMap map(kFrom, kTo, at::kCPU);
  const at::Tensor x = at::tensor({-2.0, -1.0, -0.5, 0.0, 1.0, 4.0, 12.0}).to(at::kFloat);
  const at::Tensor wanted = at::tensor({-4.5, -2.0, -0.75, 0.5, 0.625, 1.0, 2.0}).to(at::kFloat);
  EXPECT_TRUE(map(x).equal(wanted)) << map(x);
}

TEST(PointMap, TheInverseGivesStoredValuesBack) {
  const PointMap map(kFrom, kTo, at::kCPU);
  const at::Tensor x = at::linspace(-10.0, 10.0, 1001);
  EXPECT_LT((map.inverse()(map(x)) - x).abs().max().item<float>(), 1e-5F);
}

TEST(PointMap, InvertsTheChannelOfASampleThatHasOne) {
  ImageRecord image{.height = 1, .width = 2, .dtype = base::DType::f32, .normalization = {}};
  image.fields = data::image_fields({.height = 1, .width = 2, .channels = 2, .dtype = base::DType::f32}, {}, false);
  image.fields[0].variables[1].transform = data::Transform(kFrom, kTo);
  const at::Tensor seen = at::tensor({3.0, 4.0, -2.0, 0.75}).to(at::kFloat).view({1, 2, 1, 2});
  const at::Tensor wanted = at::tensor({3.0, 4.0, -1.0, 2.0}).to(at::kFloat).view({1, 2, 1, 2});
  EXPECT_TRUE(stored_images(seen, image).equal(wanted)) << stored_images(seen, image);
}

}  // namespace
}  // namespace ddpm::denoise
