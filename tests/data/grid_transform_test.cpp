// Transforms that are a grid: JSON and back, and what is refused.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "base/base64.h"
#include "base/error.h"
#include "data/field_json.h"
#include "data/fit_transforms.h"
#include "data/transform_json.h"

namespace ddpm::data {
namespace {

using base::Json;
using base::OrderedJson;
using testing::HasSubstr;

constexpr ImageFormat kImage = {.height = 2, .width = 3, .channels = 2, .dtype = base::DType::f32};

PointScales scales() {
  return {.sides = {2, 3}, .mean = {1, -2, 0, 1e30F, 0.1F, 5}, .std = {0.5F, 1, 0, 1e-37F, 3, 1e38F}};
}

std::vector<Field> fields_with(const Transform& transform, FieldRole role = FieldRole::image) {
  std::vector<Field> fields = image_fields(kImage, {}, /*has_labels=*/false);
  if (role == FieldRole::static_values) {
    fields.push_back(make_field(role, "/static", kImage.shape(), base::DType::f32, true));
  } else if (role == FieldRole::parameters) {
    fields.push_back(make_field(role, "/parameters", {2}, base::DType::f32, false));
  }
  fields.back().variables[1].transform = transform;
  return fields;
}

std::string refusal(const OrderedJson& transform) {
  try {
    OrderedJson list = to_json(fields_with({}));
    list[0]["variables"][1]["transform"] = transform;
    parse_field_list(Json::parse(list.dump()), "fields");
  } catch (const base::DatasetError& error) {
    return error.what();
  }
  return "accepted";
}

std::string text_of(const std::vector<float>& numbers) { return base::to_base64(std::as_bytes(std::span(numbers))); }

/// The refusal of a grid in which one array is another.
std::string refusal(const char* key, std::vector<float> numbers) {
  OrderedJson json = to_json(Transform(scales()));
  json[key] = text_of(numbers);
  return refusal(json);
}

TEST(GridTransform, TextAndBackIsTheSame) {
  const std::vector<Field> fields = fields_with(Transform(scales()));
  const OrderedJson json = to_json(fields);
  EXPECT_EQ(parse_field_list(Json::parse(json.dump()), "fields"), fields);
  const OrderedJson& transform = json[0]["variables"][1]["transform"];
  EXPECT_EQ(transform["sides"], OrderedJson({2, 3}));
  EXPECT_THAT(transform["mean"].get<std::string>(), testing::StartsWith("AACAPwAAAMA"));  // 1.0F, -2.0F
  EXPECT_EQ(transform.size(), 4U);
}

TEST(GridTransform, IsComparedByItsNumbers) {
  EXPECT_EQ(Transform(scales()), Transform(scales()));
  PointScales other = scales();
  other.std[4] = 2;
  EXPECT_NE(Transform(scales()), Transform(other));
  EXPECT_NE(Transform(scales()), Transform());
  EXPECT_EQ(Transform(scales()).text(), "grid (2 x 3 points)");
}

TEST(GridTransform, APointOfOneValueBecomesZero) {
  EXPECT_EQ(scales().seen(0, 2.0), 2.0);
  EXPECT_EQ(scales().seen(2, 0.0), 0.0);
  EXPECT_EQ(scales().seen(2, 7.0), 0.0);
}

TEST(GridTransform, WhatIsNoGridIsRefused) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refusal(to_json(Transform(scales()))), "accepted");
  EXPECT_THAT(refusal("mean", {1, 2, 3, 4, 5}), HasSubstr("\"mean\" holds 20 bytes, 24 are wanted"));
  EXPECT_THAT(refusal("std", {1, 2, 3, 4, 5, 6, 7}), HasSubstr("\"std\" holds 28 bytes, 24 are wanted"));
  EXPECT_THAT(refusal("mean", {1, 2, 3, kNan, 5, 6}), HasSubstr("\"mean\" is nan at point 3"));
  EXPECT_THAT(refusal("mean", {1, 2, 3, 4, 5, kInfinity}), HasSubstr("\"mean\" is inf at point 5"));
  EXPECT_THAT(refusal("std", {1, -2, 3, 4, 5, 6}), HasSubstr("\"std\" is -2 at point 1, a positive number is wanted"));
  EXPECT_THAT(refusal("std", {kNan, 2, 3, 4, 5, 6}), HasSubstr("variable \"channel 1\": \"std\" is nan at point 0"));
  EXPECT_THAT(refusal("std", {1, 2, 3, 4, 5, kInfinity}), HasSubstr("\"std\" is inf at point 5"));
  EXPECT_THAT(refusal("std", {1, 2, 3, 4, 1e-40F, 6}), HasSubstr("at point 4"));
  const auto edited = [](const char* key, const OrderedJson& value) {
    OrderedJson json = to_json(Transform(scales()));
    json[key] = value;
    return refusal(json);
  };
  EXPECT_THAT(edited("mean", "AAAA*"), HasSubstr("\"mean\" is not base64"));
  EXPECT_THAT(edited("mean", OrderedJson::array({1.0})), HasSubstr("wanted a string"));
  EXPECT_THAT(edited("sides", {3, 2}), HasSubstr("its transform is a grid of 3 × 2 points, 2 × 3 are wanted"));
  EXPECT_THAT(edited("sides", {1, 2, 3}), HasSubstr("a grid of 1 × 2 × 3 points"));
  EXPECT_THAT(edited("sides", {1, 1, 2, 3}), HasSubstr("\"sides\" holds 3, two or three integers"));
  EXPECT_THAT(edited("sides", {0, 3}), HasSubstr("\"sides\" holds 0"));
  EXPECT_THAT(edited("sides", {65536, 65536}), HasSubstr("17179869184 are wanted"));
  EXPECT_THAT(edited("scale", 1.0), HasSubstr("unknown key 'scale'"));
  OrderedJson lacking = to_json(Transform(scales()));
  lacking.erase("sides");
  EXPECT_THAT(refusal(lacking), HasSubstr("key 'sides' is missing"));
}

TEST(GridTransform, HasALimitOfPoints) {
  const auto side = static_cast<std::size_t>(kMostGridPoints) + 1;
  const Transform large(PointScales{
      .sides = {1, kMostGridPoints + 1}, .mean = std::vector<float>(side), .std = std::vector<float>(side)});
  EXPECT_THAT(large.problem(), HasSubstr("its grid has 2097153 points, 1 to 2097152 are wanted"));
}

TEST(GridTransform, OnlyImagesAndConditionsHaveOne) {
  for (const auto role : {FieldRole::static_values, FieldRole::parameters}) {
    const std::vector<Field> fields = fields_with(Transform(scales()), role);
    EXPECT_THROW(parse_field_list(Json::parse(to_json(fields).dump()), "fields"), base::DatasetError);
  }
}

std::string refused_word(const std::string& text, const std::vector<Field>& fields) {
  try {
    parse_transforms(text, fields);
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GridTransform, IsAskedForByItsWord) {
  EXPECT_EQ(parse_transforms("channel 1=grid", fields_with({})),
            (TransformKinds{{TransformKind::none, TransformKind::grid}}));
  const std::vector<Field> with_static = fields_with({}, FieldRole::static_values);
  EXPECT_THAT(refused_word("static/channel 0=grid", with_static), HasSubstr("static/channel 0 has one value at each"));
  EXPECT_THAT(refused_word("grid", with_static), HasSubstr("static/channel 0 has one value at each point"));
  EXPECT_EQ(refused_word("images/channel 0=grid", with_static), "accepted");
  const ImageFormat large = {.height = 2048, .width = 1025, .channels = 1, .dtype = base::DType::f32};
  EXPECT_THAT(refused_word("grid", image_fields(large, {}, false)),
              HasSubstr("a grid of images/channel 0 has 2099200"));
  const ImageFormat many = {.height = 1024, .width = 1024, .channels = 17, .dtype = base::DType::f32};
  EXPECT_THAT(refused_word("grid", image_fields(many, {}, false)), HasSubstr("a grid of images/channel 16"));
}

}  // namespace
}  // namespace ddpm::data
