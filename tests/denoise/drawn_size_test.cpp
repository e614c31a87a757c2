// Positions in images of another size than those of the training.
#include "denoise/drawn_size.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "denoise/overlapping_windows.h"
#include "denoise/window_model.h"

namespace ddpm::denoise {
namespace {

using testing::HasSubstr;

/// A model that sees 8 × 8 pixels and where they lie in images of `whole`; empty: its record does not tell.
LoadedModel model_with_whole(const std::vector<int64_t>& whole, bool positions = true) {
  LoadedModel model = model_of({8, 8});
  model.image.height = model.image.width = 8;
  model.image.positions = positions;
  model.image.whole = whole;
  return model;
}

/// The refusal of images of these sides, or the warning of them; empty sides: no size is asked for.
std::string said_of(LoadedModel model, const std::vector<int64_t>& sides) {
  if (!sides.empty()) set_image_size(model, sides, std::nullopt);
  try {
    expect_positions_of_whole_images(model);
  } catch (const base::ConfigError& error) {
    return std::string("error: ") + error.what();
  }
  return positions_warning(model);
}

TEST(DrawnSize, OfAWindowIsRefusedWherePositionsAreThoseOfLargerImages) {
  EXPECT_EQ(
      said_of(model_with_whole({24, 32}), {}),
      "error: images of 8 × 8: the model was trained on windows of images of 24 × 32, and is given where in such an "
      "image each pixel lies; wanted: --size 24x32");
  EXPECT_EQ(said_of(model_with_whole({24, 32}), {24, 32}), "");
  EXPECT_EQ(said_of(model_with_whole({24, 32}, /*positions=*/false), {}), "");
}

TEST(DrawnSize, ThatTheModelHasNotLearnedIsWarnedOf) {
  EXPECT_THAT(said_of(model_with_whole({24, 32}), {24, 64}),
              HasSubstr("has learned that in images of 24 × 32, whose positions"));
  EXPECT_THAT(said_of(model_with_whole({8, 8}), {16, 16}), HasSubstr("wanted: --size 8x8"));
  EXPECT_EQ(said_of(model_with_whole({8, 8}), {}), "");
}

/// A field of the training set tells it as well, and an older record need not tell it at all.
TEST(DrawnSize, IsThatOfTheFieldOrUnknown) {
  LoadedModel model = model_with_whole({});
  EXPECT_THAT(said_of(model_with_whole({}), {}), HasSubstr("an older version of the program wrote"));
  EXPECT_EQ(said_of(model_with_whole({}, /*positions=*/false), {}), "");
  model.image.fields = {
      data::make_field(data::FieldRole::image, "/images", {24, 32, 3}, base::DType::f32, /*per_set=*/false)};
  EXPECT_THAT(said_of(std::move(model), {}), HasSubstr("wanted: --size 24x32"));
}

}  // namespace
}  // namespace ddpm::denoise
