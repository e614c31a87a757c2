// What messages say of two records of images that differ.
#include "denoise/record_difference.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpm::denoise {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

data::Field field(data::FieldRole role, const char* path, const std::vector<int64_t>& shape) {
  return data::make_field(role, path, shape, base::DType::f32, /*per_set=*/false);
}

/// Images of two variables, and a condition of one.
ImageRecord record() {
  ImageRecord made{.height = 8, .width = 8, .dtype = base::DType::f32, .normalization = {}};
  made.fields = {field(data::FieldRole::image, "/images", {16, 16, 2}),
                 field(data::FieldRole::condition, "/condition", {8, 8, 1})};
  return made;
}

std::string told(const std::function<void(ImageRecord&)>& change) {
  const ImageRecord wanted = record();
  ImageRecord seen = wanted;
  change(seen);
  return difference(seen, wanted);
}

TEST(RecordDifference, IsNothingOfWhatIsNotCompared) {
  EXPECT_EQ(told([](ImageRecord& r) {
              r.height = 4;
              r.class_names = {"a"};
              r.labels = "classes";
              r.whole = {32, 32};
            }),
            "");
}

TEST(RecordDifference, NamesFieldsAndKeys) {
  EXPECT_EQ(told([](ImageRecord& r) { r.positions = true; }), "positions: true, wanted false");
  EXPECT_EQ(told([](ImageRecord& r) { r.fields.pop_back(); }), "condition: none, wanted [8, 8, 1] of float32");
  EXPECT_EQ(told([](ImageRecord& r) { r.fields.push_back(field(data::FieldRole::parameters, "/p", {3})); }),
            "parameters: [3] of float32, wanted none");
  EXPECT_EQ(told([](ImageRecord& r) {
              r.fields[1].shape = {16, 16, 1};
            }),
            "condition: [16, 16, 1] of float32, wanted [8, 8, 1] of float32");
  EXPECT_EQ(told([](ImageRecord& r) { r.fields[1].path = "/coarse"; }),
            "array of the condition: /coarse, wanted /condition");
  EXPECT_EQ(told([](ImageRecord& r) { r.wraps = {true, false}; }), "axes that go around: [true, false], wanted none");
  ImageRecord plain;
  ImageRecord scaled;
  scaled.normalization.scale = 2.0;
  EXPECT_THAT(difference(scaled, plain), HasSubstr("images: x · 2 + "));
}

TEST(RecordDifference, NamesVariables) {
  EXPECT_EQ(told([](ImageRecord& r) {
              r.fields[0].variables[1].name = "t2m";
              r.fields[0].variables[1].unit = "K";
            }),
            "variables of the image: channel 0, t2m (K), wanted channel 0, channel 1");
  const data::Transform standardize(data::TransformType::standardize, 281.0, 21.5);
  EXPECT_EQ(told([&](ImageRecord& r) { r.fields[0].variables[1].transform = standardize; }),
            "image channel 1: standardize(281, 21.5), wanted affine(1, 0)");
  const data::Transform near_one(data::TransformType::affine, 1.0 + 1e-12, 0.0);
  EXPECT_EQ(told([&](ImageRecord& r) { r.fields[1].variables[0].transform = near_one; }),
            "condition channel 0: affine(1, 0), wanted affine(1, 0) with other numbers");
}

/// Images without fields, 16 × 16 in all, of which a model saw windows.
ImageRecord plain_record() {
  ImageRecord made{.height = 8, .width = 8, .dtype = base::DType::f32, .normalization = {}};
  made.positions = true;
  made.whole = {16, 16};
  made.names = {{.name = "t2m", .unit = "K", .transform = {}}};
  return made;
}

/// What `change` makes differ, told to people and by is_like() from either side.
std::string told_of_plain(const std::function<void(ImageRecord&)>& change) {
  const ImageRecord wanted = plain_record();
  ImageRecord seen = wanted;
  change(seen);
  std::string text = difference(seen, wanted);
  EXPECT_EQ(text.empty(), seen.is_like(wanted));
  EXPECT_EQ(text.empty(), wanted.is_like(seen));
  return text;
}

TEST(RecordDifference, NamesSidesInWhichPositionsWereLearned) {
  EXPECT_EQ(told_of_plain([](ImageRecord& r) {
              r.whole = {32, 16};
            }),
            "whole images, in which the model is given positions: 32 × 16, wanted 16 × 16");
  EXPECT_EQ(told_of_plain([](ImageRecord& r) { r.whole.clear(); }), "");  // of an older version
  ImageRecord here = plain_record();
  here.positions = false;
  ImageRecord elsewhere = here;
  elsewhere.whole = {32, 32};
  EXPECT_EQ(difference(elsewhere, here), "");
  EXPECT_TRUE(elsewhere.is_like(here));
}

TEST(RecordDifference, NamesVariablesOfImagesWithoutFields) {
  EXPECT_EQ(told_of_plain([](ImageRecord& r) { r.names = {{.name = "u10", .unit = "m/s", .transform = {}}}; }),
            "variables of the image: u10 (m/s), wanted t2m (K)");
  EXPECT_EQ(told_of_plain([](ImageRecord& r) { r.names.front().unit = "degC"; }),
            "variables of the image: t2m (degC), wanted t2m (K)");
  EXPECT_EQ(told_of_plain([](ImageRecord& r) { r.names.clear(); }), "");  // of a bare file
}

TEST(RecordDifference, IsShortHoweverMuchDiffers) {
  const ImageRecord wanted = record();
  ImageRecord seen = wanted;
  const std::vector<float> points(4096, 2.0F);
  seen.fields[0].variables[0].transform = data::Transform(data::PointScales{{64, 64}, points, points});
  seen.fields[0].variables[1].transform = data::Transform(data::TransformType::log1p, 1.0, 0.0);
  seen.fields[1].path = "/coarse";
  seen.positions = true;
  seen.wraps = {true, true};
  const std::string text = difference(seen, wanted);
  EXPECT_THAT(text, HasSubstr("image channel 0: grid (64 x 64 points), wanted affine(1, 0); image channel 1: log1p"));
  EXPECT_THAT(text, testing::EndsWith("array of the condition: /coarse, wanted /condition and 2 more"));
  EXPECT_THAT(text, SizeIs(testing::Lt(300U)));
}

}  // namespace
}  // namespace ddpm::denoise
