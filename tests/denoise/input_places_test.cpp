// Where the channels of a model stand in one that is given more.
#include "denoise/input_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::denoise {
namespace {

using data::FieldRole;
using Names = std::vector<std::string>;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

data::Field field(FieldRole role, const Names& names) {
  const std::vector<int64_t> shape = {8, 8, std::ssize(names)};
  const bool per_set = role == FieldRole::static_values;
  data::Field made = data::make_field(role, data::array_path(role), shape, base::DType::f32, per_set);
  for (std::size_t v = 0; v < names.size(); ++v) made.variables[v].name = names[v];
  return made;
}

ImageRecord record(const Names& condition, const Names& static_values, bool positions,
                   const Names& image = {"u", "v"}) {
  ImageRecord made;
  made.fields = {field(FieldRole::image, image)};
  if (!condition.empty()) made.fields.push_back(field(FieldRole::condition, condition));
  if (!static_values.empty()) made.fields.push_back(field(FieldRole::static_values, static_values));
  made.positions = positions;
  return made;
}

InputPlaces placed(const ImageRecord& before, const ImageRecord& now, int64_t channels) {
  return place_inputs(before, now, /*image_channels=*/2, channels, "RUN");
}

std::string refusal(const ImageRecord& before, const ImageRecord& now, int64_t channels) {
  try {
    placed(before, now, channels);
  } catch (const base::OutputError& error) {
    return error.what();
  }
  return "";
}

TEST(InputPlaces, AFieldThatIsNewMovesThoseBehindIt) {
  const ImageRecord before = record({"t2m"}, {}, /*positions=*/true);
  const InputPlaces places = placed(before, record({"t2m"}, {"height"}, true), 7);
  EXPECT_THAT(places.places, ElementsAre(0, 1, 2, 4, 5, 6, 7));
  EXPECT_THAT(places.renamed, IsEmpty());
  ImageRecord plain;  // images of one map, of which no field is recorded
  plain.positions = true;
  EXPECT_THAT(placed(plain, record({"t2m"}, {}, true), 6).places, ElementsAre(0, 1, 3, 4, 5, 6));
}

TEST(InputPlaces, VariablesAreFoundByTheirNames) {
  EXPECT_THAT(placed(record({"a", "b"}, {}, false), record({"c", "b", "a"}, {}, false), 4).places,
              ElementsAre(0, 1, 4, 3));
  const Names twice = {"a", "a"};
  EXPECT_THAT(placed(record(twice, {}, false), record(twice, {}, false), 4).places, ElementsAre(0, 1, 2, 3));
}

TEST(InputPlaces, AsManyOfOtherNamesAreTakenInTheirOrder) {
  const InputPlaces places = placed(record({"a", "b"}, {}, false), record({"c", "d"}, {"height"}, false), 4);
  EXPECT_THAT(places.places, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(places.renamed, ElementsAre("condition c, d in place of a, b"));
}

TEST(InputPlaces, WhatIsGoneIsRefused) {
  const ImageRecord before = record({"a", "b"}, {}, false);
  EXPECT_THAT(refusal(before, record({"b", "c"}, {}, false), 4), HasSubstr("RUN: its model is given a in the role of"));
  EXPECT_THAT(refusal(before, record({"c", "d", "e"}, {}, false), 4), HasSubstr("is given a, b in the role"));
  EXPECT_THAT(refusal(before, record({}, {"height", "b"}, false), 4), HasSubstr("role of condition"));
  EXPECT_THAT(refusal(record({}, {}, true), record({"a", "b", "c", "d"}, {}, false), 6),
              HasSubstr("wanted: data.positions = true"));
}

TEST(InputPlaces, ARecordThatIsNotOfTheModelIsRefused) {
  const ImageRecord before = record({"a"}, {}, false);
  EXPECT_THAT(refusal(before, before, 4), HasSubstr("tells of image 2 + condition 1, but its model sees 4 channels"));
}

TEST(InputPlaces, DrawnVariablesInAnotherOrderAreRefused) {
  const ImageRecord before = record({}, {}, false);
  EXPECT_THAT(refusal(before, record({}, {}, false, {"v", "u"}), 2), HasSubstr("draws u, v in this order"));
  EXPECT_EQ(refusal(before, record({}, {}, false, {"w", "x"}), 2), "");
}

}  // namespace
}  // namespace ddpm::denoise
