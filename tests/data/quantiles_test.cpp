#include "data/quantiles.h"

#include <cmath>

#include <gmock/gmock.h>

#include "base/error.h"
#include "data/fit_transforms.h"

namespace ddpm::data {
namespace {

using testing::HasSubstr;

TEST(Quantiles, LieOnStraightLinesBetweenTheSortedValues) {
  std::vector<float> values = {4.0F, 1.0F, 2.0F};
  const std::vector<double> quantiles = quantiles_of(values);
  EXPECT_EQ(quantiles.size(), kQuantiles);
  EXPECT_EQ(quantiles.front(), 1.0);
  EXPECT_EQ(quantiles[32], 1.5);
  EXPECT_EQ(quantiles[64], 2.0);
  EXPECT_EQ(quantiles[96], 3.0);
  EXPECT_EQ(quantiles.back(), 4.0);
}

TEST(Quantiles, EqualOnesBecomeOnePointAtTheMeanOfTheirPlaces) {
  const Transform map = quantile_map({0.0, 0.0, 0.0, 1.0, 2.0}, /*uniform=*/true);
  EXPECT_THAT(map.from, testing::ElementsAre(0.0, 1.0, 2.0));
  EXPECT_THAT(map.to, testing::ElementsAre(-0.5, 0.5, 1.0));
  EXPECT_EQ(map.problem(), "");
  EXPECT_EQ(quantile_map({3.0, 3.0, 3.0}, false), Transform(Normalization{.scale = 1.0, .offset = -3.0}));
}

TEST(Quantiles, PointsThatDoNotGrowAreNoMap) {
  EXPECT_THAT(Transform({1.0, 1.0}, {0.0, 1.0}).problem(), HasSubstr("\"from\" does not grow"));
  EXPECT_THAT(Transform({1.0, 2.0}, {0.0, -1.0}).problem(), HasSubstr("\"to\" does not grow"));
  EXPECT_THAT(Transform({1.0, 1.0 + 1e-12}, {0.0, 1.0}).problem(), HasSubstr("as float32 holds them"));
  EXPECT_THAT(Transform({1.0}, {0.0}).problem(), HasSubstr("2 to 1025"));
  EXPECT_THAT(Transform({0.0, 1e39}, {0.0, 1.0}).problem(), HasSubstr("\"from\""));
}

std::vector<Field> two_fields() {
  std::vector<Field> fields = {make_field(FieldRole::image, "/images", {4, 4, 2}, base::DType::f32, false),
                               make_field(FieldRole::condition, "/condition", {4, 4, 2}, base::DType::f32, false),
                               make_field(FieldRole::mask, "/mask", {4, 4}, base::DType::u8, false)};
  fields[0].variables[0].name = "t2m";
  fields[1].variables[0].name = "t2m";
  return fields;
}

TEST(ParseTransforms, NamesStandForVariablesOfEveryFieldOrOfOne) {
  using K = TransformKind;
  EXPECT_EQ(parse_transforms("", two_fields()), (TransformKinds{{K::none, K::none}, {K::none, K::none}, {}}));
  EXPECT_EQ(parse_transforms(" minmax ", two_fields()),
            (TransformKinds{{K::minmax, K::minmax}, {K::minmax, K::minmax}, {}}));
  EXPECT_EQ(parse_transforms("t2m=standardize, condition/channel 1 = log1p", two_fields()),
            (TransformKinds{{K::standardize, K::none}, {K::standardize, K::log1p}, {}}));
  EXPECT_FALSE(wants_fit(parse_transforms("t2m=none", two_fields())));
}

TEST(ParseTransforms, RefusesWhatNoVariableCanHave) {
  EXPECT_THROW(parse_transforms("u=standardize", two_fields()), base::ConfigError);
  EXPECT_THROW(parse_transforms("t2m=std", two_fields()), base::ConfigError);
  EXPECT_THROW(parse_transforms("t2m=minmax,u10", two_fields()), base::ConfigError);
  const ImageFormat picture = {.height = 4, .width = 4, .channels = 3, .dtype = base::DType::u8};
  EXPECT_THROW(parse_transforms("red=standardize", image_fields(picture, Normalization::of(base::DType::u8), false)),
               base::ConfigError);
  EXPECT_THROW(parse_transforms("minmax", image_fields(picture, Normalization::of(base::DType::u8), false)),
               base::ConfigError);
}

}  // namespace
}  // namespace ddpm::data
