#include "data/variable_plane.h"

#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpm::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// An image of 2 x 2 pixels and 2 channels.
Field pair_field(const Transform& transform = {}) {
  Field field = make_field(FieldRole::image, "/images", {2, 2, 2}, base::DType::f32, false);
  field.variables[1].transform = transform;
  return field;
}

/// Channel 1 holds `values`; channel 0 something else.
std::array<float, 8> pair_image(const std::array<float, 4>& values) {
  return {-1, values[0], -2, values[1], -3, values[2], -4, values[3]};
}

std::vector<float> seen_of(const Transform& transform, const std::array<float, 4>& values) {
  const Field field = pair_field(transform);
  VariablePlane plane(field, true);
  const auto whole = pair_image(values);
  plane.take(std::as_bytes(std::span(whole)), {}, 1);
  return {plane.kept().begin(), plane.kept().end()};
}

TEST(VariablePlane, KeepsFiniteValuesOfValidPixels) {
  const Field field = pair_field();
  VariablePlane plane(field, false);
  const auto values = pair_image({5, NAN, 7, INFINITY});
  plane.take(std::as_bytes(std::span(values)), {}, 1);
  EXPECT_THAT(plane.kept(), ElementsAre(5, 7));
  EXPECT_EQ(plane.non_finite(), 2);
  const std::array valid = {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{1}};
  plane.take(std::as_bytes(std::span(values)), valid, 1);
  EXPECT_THAT(plane.kept(), ElementsAre(5));
  EXPECT_EQ(plane.masked(), 2);
  EXPECT_EQ(plane.non_finite(), 1);
  const std::array none = {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}};
  plane.take(std::as_bytes(std::span(values)), none, 1);
  EXPECT_THAT(plane.kept(), IsEmpty());
}

TEST(VariablePlane, WhatIsNotValidCountsAsTheMean) {
  const Field field = pair_field();
  VariablePlane plane(field, false);
  const std::array valid = {std::byte{1}, std::byte{0}, std::byte{1}, std::byte{1}};
  const auto values = pair_image({1, NAN, 2, 6});
  plane.take(std::as_bytes(std::span(values)), valid, 1);
  EXPECT_THAT(plane.centred(valid), ElementsAre(-2, 0, -1, 3));
}

TEST(VariablePlane, EachTransformIsTaken) {
  EXPECT_THAT(seen_of(Normalization{.scale = 2.0, .offset = 1.0}, {0, 1, 2, 3}), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(seen_of({TransformType::standardize, 1.0, 2.0}, {0, 1, 2, 3}), ElementsAre(-0.5, 0, 0.5, 1));
  EXPECT_THAT(seen_of({TransformType::minmax, 0.0, 4.0}, {0, 1, 2, 4}), ElementsAre(-1, -0.5, 0, 1));
  EXPECT_THAT(seen_of({TransformType::log1p, 1.0, 0.0}, {0, 1, 3, 7}),
              ElementsAre(0, std::log(2.0F), std::log(4.0F), std::log(8.0F)));
  const Transform points(std::vector{0.0, 1.0, 4.0}, std::vector{-1.0, 0.0, 6.0});
  EXPECT_THAT(seen_of(points, {0.5, 1, 2, 4}), ElementsAre(-0.5, 0, 2, 6));
  const Transform grid(PointScales{.sides = {2, 2}, .mean = {0, 1, 2, 3}, .std = {1, 2, 0.5, 0}});
  EXPECT_THAT(seen_of(grid, {4, 5, 3, 9}), ElementsAre(4, 2, 2, 0)) << "each point has its own numbers";
  EXPECT_THAT(seen_of(points, {-1, 0, 5, 7}), ElementsAre(-2, -1, 8, 12)) << "the outer lines go on";
}

TEST(VariablePlane, WhatATransformCannotTakeIsNotFinite) {
  EXPECT_THAT(seen_of({TransformType::log1p, 1.0, 0.0}, {-2, -1, 0, 0}), ElementsAre(0, 0));
}

}  // namespace
}  // namespace ddpm::data
