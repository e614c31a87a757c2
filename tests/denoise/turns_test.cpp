// Mirrored and turned images, and vectors that turn with them.
#include "denoise/turns.h"

#include <cstdlib>
#include <map>
#include <set>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/rot90.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "denoise/windows.h"
#include "diffusion/noise.h"

namespace ddpm::denoise {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kSide = 6;
constexpr Augmentation kAll{.seed = 5, .horizontal_flip = true, .vertical_flip = true, .quarter_turns = true};

Turns drawn(const Augmentation& augmentation, layout::Range positions) {
  return Turns::draw(augmentation, diffusion::step_tensor(7, at::kCPU), positions);
}

/// Images [n, h, w, c] as they are seen.
at::Tensor seen(const at::Tensor& stored, const Turns& turns, int64_t height) {
  const at::Tensor pixels =
      at::arange(stored.size(1) * stored.size(2), at::kLong).view({1, stored.size(1), stored.size(2)});
  return cut(stored, turns.pixels(pixels, height));
}

/// How an image [h, w, c] was turned: quarter turns to the left, and then mirrored; {-1, false} if not at all so.
std::pair<int64_t, bool> turn_between(const at::Tensor& stored, const at::Tensor& turned) {
  for (const bool mirrored : {false, true}) {
    for (int64_t k = 0; k < 4; ++k) {
      const at::Tensor image = at::rot90(stored, k, {0, 1});
      if (at::equal(mirrored ? image.flip(1) : image, turned)) return {k, mirrored};
    }
  }
  return {-1, false};
}

TEST(Turns, AreTheEightSymmetriesOfTheSquareEquallyOften) {
  constexpr int64_t kCount = 4000;
  const at::Tensor images = at::rand({1, kSide, kSide, 2});
  const at::Tensor turned = seen(images, drawn(kAll, {0, kCount}), kSide);
  std::map<std::pair<int64_t, bool>, int64_t> times;
  for (int64_t i = 0; i < kCount; ++i) ++times[turn_between(images[0], turned[i])];
  ASSERT_EQ(times.size(), 8U);
  EXPECT_FALSE(times.contains({-1, false}));
  for (const auto& [turn, count] : times) EXPECT_LT(std::abs(count - kCount / 8), 100) << turn.first << turn.second;
}

TEST(Turns, AreThoseThatWereAskedFor) {
  const at::Tensor images = at::rand({1, kSide, kSide, 2});
  const auto kinds = [&](const Augmentation& augmentation) {
    const at::Tensor turned = seen(images, drawn(augmentation, {0, 200}), kSide);
    std::set<std::pair<int64_t, bool>> found;
    for (int64_t i = 0; i < 200; ++i) found.insert(turn_between(images[0], turned[i]));
    return found;
  };
  using Kinds = std::set<std::pair<int64_t, bool>>;
  EXPECT_EQ(kinds({.horizontal_flip = true}), (Kinds{{0, false}, {0, true}}));
  EXPECT_EQ(kinds({.vertical_flip = true}), (Kinds{{0, false}, {2, true}}));
  EXPECT_EQ(kinds({.quarter_turns = true}), (Kinds{{0, false}, {1, false}, {2, false}, {3, false}}));
}

TEST(Turns, DependOnThePositionInTheGlobalBatch) {
  const at::Tensor images = at::rand({16, kSide, kSide, 1});
  const at::Tensor whole = seen(images, drawn(kAll, {8, 24}), kSide);
  const at::Tensor parts = at::cat({seen(images.narrow(0, 0, 5), drawn(kAll, {8, 13}), kSide),
                                    seen(images.narrow(0, 5, 11), drawn(kAll, {13, 24}), kSide)});
  EXPECT_TRUE(at::equal(whole, parts));
}

TEST(Turns, MirrorRectanglesAndTurnAllLayersOfVolumesAlike) {
  constexpr Augmentation kMirrors{.seed = 1, .horizontal_flip = true, .vertical_flip = true};
  const at::Tensor volumes = at::rand({1, 3, 4, 6, 2});
  const at::Tensor turned = seen(volumes.flatten(1, 2), drawn(kMirrors, {0, 32}), 4).view({32, 3, 4, 6, 2});
  std::set<std::vector<int64_t>> found;
  for (int64_t i = 0; i < 32; ++i) {
    for (const auto& axes : {std::vector<int64_t>{}, {1}, {2}, {1, 2}}) {
      if (at::equal(turned[i], volumes[0].flip(axes))) found.insert(axes);
    }
  }
  EXPECT_EQ(found.size(), 4U);
}

TEST(Windows, ShiftWholeImagesAlongTheMarkedAxes) {
  const data::ImageFormat image{.height = 3, .width = 5, .channels = 1, .dtype = base::DType::f32};
  const Patch patch{.whole = image, .window = image};
  const Windows windows(patch, 3, base::Stream::patch, at::kCPU, {false, true});
  const at::Tensor images = at::rand({64, 3, 5, 1});
  const at::Tensor shifted = cut(images, windows.pixels(diffusion::step_tensor(2, at::kCPU), {0, 64}));
  std::set<int64_t> shifts;
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t shift = 0; shift < 5; ++shift) {
      if (at::equal(shifted[i], at::roll(images[i], shift, 1))) shifts.insert(shift);
    }
  }
  EXPECT_EQ(shifts.size(), 5U);
}

data::Field field_of(const std::vector<std::string>& names) {
  data::Field field = data::make_field(data::FieldRole::image, "/images",
                                       {kSide, kSide, static_cast<int64_t>(names.size())}, base::DType::f32, false);
  for (std::size_t i = 0; i < names.size(); ++i) field.variables[i].name = names[i];
  return field;
}

/// Scalars [n, h, w] and their central differences: a vector field that is known for every turned scalar, too.
at::Tensor with_gradient(const at::Tensor& scalar, float sign_of_width, float sign_of_height) {
  const auto difference = [&](int64_t axis) { return at::roll(scalar, -1, axis) - at::roll(scalar, 1, axis); };
  return at::stack({sign_of_height * difference(1), scalar, sign_of_width * difference(2)}, 3);
}

TEST(Components, OfAGradientAreTheGradientOfTheTurnedScalar) {
  for (const float sign_of_width : {1.0F, -1.0F}) {
    for (const float sign_of_height : {1.0F, -1.0F}) {
      const std::string text = std::string(sign_of_width < 0 ? "-" : "") + "u," + (sign_of_height < 0 ? " - v " : "v");
      const Components components(field_of({"v", "s", "u"}), vectors_of({text}), at::kCPU);
      ASSERT_TRUE(components.any());
      const at::Tensor stored = with_gradient(at::rand({64, kSide, kSide}), sign_of_width, sign_of_height);
      const Turns turns = drawn(kAll, {0, 64});
      const at::Tensor turned = seen(components.turned(stored, turns), turns, kSide);
      EXPECT_TRUE(at::equal(turned, with_gradient(turned.select(3, 1), sign_of_width, sign_of_height))) << text;
      EXPECT_TRUE(at::equal(seen(stored, turns, kSide).select(3, 1), turned.select(3, 1)));
    }
  }
}

TEST(Components, AreFoundByTheNamesOfFieldAndVariable) {
  EXPECT_TRUE(Components(field_of({"u", "v"}), vectors_of({"images/u, images/v"}), at::kCPU).any());
  EXPECT_FALSE(Components(field_of({"u", "v"}), vectors_of({"condition/u, condition/v"}), at::kCPU).any());
  EXPECT_FALSE(Components(field_of({"u", "w"}), vectors_of({"u, v"}), at::kCPU).any());
}

TEST(Vectors, ThatCannotBeAreRefused) {
  for (const char* text : {"", "u", "u,", ",v", "u, v, w", "u, u", "-, v", "u, -"}) {
    EXPECT_THAT([&] { (void)vectors_of({text}); }, ThrowsMessage<base::ConfigError>(HasSubstr("data.vectors"))) << text;
  }
  EXPECT_THAT([] { (void)vectors_of({"u, v", "v, w"}); }, ThrowsMessage<base::ConfigError>(HasSubstr("names v twice")));
}

TEST(Vectors, OfASetThatLacksThemOrHoldsBytesAreRefused) {
  data::DatasetInfo info;
  info.fields = {field_of({"u", "v"})};
  data::DataConfig config;
  config.vectors = {"u, w"};
  const data::ImageFormat square = info.fields.front().format();
  EXPECT_THAT([&] { expect_turnable(config, info, square); },
              ThrowsMessage<base::ConfigError>(HasSubstr("no field of the set has variables of both names")));
  config.vectors = {"u, v"};
  EXPECT_NO_THROW(expect_turnable(config, info, square));
  info.fields.front().dtype = base::DType::u8;
  EXPECT_THAT([&] { expect_turnable(config, info, square); },
              ThrowsMessage<base::ConfigError>(HasSubstr("/images holds uint8; wanted: float32")));
  config = {};
  config.quarter_turns = true;
  EXPECT_THAT([&] { expect_turnable(config, info, {.height = 4, .width = 6, .channels = 2}); },
              ThrowsMessage<base::ConfigError>(HasSubstr("images are 4 × 6; wanted: as high as wide")));
}

}  // namespace
}  // namespace ddpm::denoise
