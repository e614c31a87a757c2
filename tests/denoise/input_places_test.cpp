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

ImageRecord of_parameters(const Names& names) {
  ImageRecord made = record({}, {}, false);
  const std::vector<int64_t> shape = {std::ssize(names)};
  made.fields.push_back(data::make_field(FieldRole::parameters, "/parameters", shape, base::DType::f32, false));
  for (std::size_t v = 0; v < names.size(); ++v) made.fields.back().variables[v].name = names[v];
  return made;
}

TEST(InputPlaces, ParametersAreFoundByTheirNames) {
  const ImageRecord before = of_parameters({"mass", "age"});
  EXPECT_THAT(place_parameters(before, of_parameters({"age", "mass"}), 2, "RUN").places, ElementsAre(1, 0));
  const InputPlaces others = place_parameters(before, of_parameters({"a", "b"}), 2, "RUN");
  EXPECT_THAT(others.places, ElementsAre(0, 1));
  EXPECT_THAT(others.renamed, ElementsAre("parameters a, b in place of mass, age"));
  EXPECT_THROW(place_parameters(before, of_parameters({"age", "time"}), 2, "RUN"), base::OutputError);
  EXPECT_THAT(place_parameters(record({}, {}, false), before, 2, "RUN").places, ElementsAre(0, 1));  // not recorded
}

TEST(InputPlaces, ClassesAreFoundByTheirNames) {
  const auto placed_rows = [](const Names& before, const Names& now, const ClassRows& rows) {
    return place_class_rows(before, now, rows, "RUN").places;
  };
  EXPECT_THAT(placed_rows({"cat", "dog"}, {"bat", "cat", "dog"}, {.before = 2, .now = 3}), ElementsAre(1, 2));
  EXPECT_THAT(placed_rows({"cat", "dog"}, {"dog", "cat"}, {.before = 3, .now = 3}), ElementsAre(1, 0, 2));
  // The null class stays the last row, and what is gone keeps a row that no class of the set has.
  EXPECT_THAT(placed_rows({"cat", "dog"}, {"bat", "dog"}, {.before = 3, .now = 5, .null_class = true}),
              ElementsAre(2, 1, 4));
  for (const Names& unnamed : {Names{}, Names{"cat"}}) {
    EXPECT_THAT(placed_rows(unnamed, unnamed.empty() ? Names{"bat"} : Names{}, {.before = 2, .now = 3}),
                ElementsAre(0, 1));
  }
  const InputPlaces others = place_class_rows({"cat"}, {"0"}, {.before = 1, .now = 1}, "RUN");
  EXPECT_THAT(others.places, ElementsAre(0));
  EXPECT_THAT(others.renamed, ElementsAre("classes 0 in place of cat"));
  try {
    place_class_rows({"cat", "dog"}, {"bat", "dog"}, {.before = 3, .now = 3, .null_class = true}, "RUN");
    ADD_FAILURE() << "nothing is left for the cats";
  } catch (const base::OutputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("wanted: model.num_class_embeds = 4"));
  }
}

TEST(InputPlaces, OtherTransformsAreNamed) {
  const ImageRecord before = record({"t2m"}, {"height"}, false);
  EXPECT_THAT(changed_transforms(before, before, 2), IsEmpty());
  ImageRecord now = before;
  now.fields[0].variables[1].transform = {data::TransformType::standardize, 3.0, 2.0};
  now.fields[1].variables[0].transform = {data::TransformType::standardize, 3.0, 2.0};
  EXPECT_THAT(changed_transforms(before, now, 2), ElementsAre("v", "t2m"));
}

}  // namespace
}  // namespace ddpm::denoise
