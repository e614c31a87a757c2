// data.patch: where windows lie, what is cut, and what a model remembers of it.
#include "denoise/windows.h"

#include <map>
#include <set>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/roll.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "denoise/image_record.h"
#include "diffusion/noise.h"

namespace ddpm::denoise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kSeed = 3;

nn::UNet2DConfig padded(std::vector<std::string> padding) {
  nn::UNet2DConfig model;
  model.dimensions = padding.size() == 3 ? 3 : 2;
  model.padding = std::move(padding);
  return model;
}

data::ImageFormat flat(int64_t height, int64_t width) { return {.height = height, .width = width, .channels = 2}; }

/// The place of the window of each position: its first pixel.
std::vector<int64_t> first_pixels(const Windows& windows, uint64_t step, layout::Range positions) {
  const at::Tensor first =
      windows.pixels(diffusion::step_tensor(step, at::kCPU), positions).flatten(1).select(1, 0).contiguous();
  return {first.const_data_ptr<int64_t>(), first.const_data_ptr<int64_t>() + first.numel()};
}

TEST(Windows, LieAtEveryPlaceEquallyOften) {
  const std::vector<std::pair<std::vector<std::string>, std::size_t>> cases = {
      {{"zeros", "zeros"}, 3 * 5}, {{"periodic", "zeros"}, 5 * 5}, {{"periodic", "periodic"}, 5 * 6}};
  for (const auto& [padding, places] : cases) {
    const Patch patch = Patch::of(flat(5, 6), {3, 2}, padded(padding));
    const Windows windows(patch, kSeed, base::Stream::patch, at::kCPU);
    std::map<int64_t, int64_t> seen;
    constexpr int64_t kDraws = 20000;
    for (const int64_t pixel : first_pixels(windows, 1, {0, kDraws})) ++seen[pixel];
    EXPECT_EQ(seen.size(), places);
    double chi_squared = 0.0;
    const double wanted = static_cast<double>(kDraws) / static_cast<double>(places);
    for (const auto& [pixel, times] : seen) chi_squared += std::pow(static_cast<double>(times) - wanted, 2) / wanted;
    EXPECT_LT(chi_squared, 2.5 * static_cast<double>(places));
  }
}

TEST(Windows, DependOnSeedStepPositionAndStreamAlone) {
  const Patch patch = Patch::of(flat(64, 64), {8, 8}, padded({"periodic", "zeros"}));
  const Windows windows(patch, kSeed, base::Stream::patch, at::kCPU);
  const std::vector<int64_t> all = first_pixels(windows, 5, {0, 8});
  std::vector<int64_t> parts = first_pixels(windows, 5, {0, 3});
  for (const int64_t pixel : first_pixels(windows, 5, {3, 8})) parts.push_back(pixel);
  EXPECT_EQ(parts, all);
  std::set<std::vector<int64_t>> different = {all, first_pixels(windows, 6, {0, 8}), first_pixels(windows, 5, {8, 16})};
  different.insert(first_pixels(Windows(patch, kSeed + 1, base::Stream::patch, at::kCPU), 5, {0, 8}));
  different.insert(first_pixels(Windows(patch, kSeed, base::Stream::validation_patch, at::kCPU), 5, {0, 8}));
  EXPECT_EQ(different.size(), 5U);
}

TEST(Windows, AreCutOutOfVolumesAcrossBordersThatWrap) {
  const data::ImageFormat whole{.height = 5, .width = 7, .channels = 2, .depth = 4};
  const Patch patch = Patch::of(whole, {2, 5, 4}, padded({"periodic", "periodic", "zeros"}));
  EXPECT_THAT(patch.places(), ElementsAre(4, 1, 4));
  const Windows windows(patch, kSeed, base::Stream::patch, at::kCPU);
  constexpr int64_t kCount = 64;
  const at::Tensor pixels = windows.pixels(diffusion::step_tensor(2, at::kCPU), {0, kCount});
  EXPECT_EQ(pixels.sizes(), (at::IntArrayRef{kCount, 2 * 5, 4}));
  const at::Tensor values = at::rand({kCount, 4 * 5, 7, 2});
  const at::Tensor seen = cut(values, pixels);
  const at::Tensor of_one = cut(values.narrow(0, 0, 1), pixels);
  std::set<int64_t> layers;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto first = pixels[i].flatten()[0].item<int64_t>();
    const int64_t layer = first / 35;
    const int64_t column = first % 7;
    EXPECT_EQ(first / 7 % 5, 0) << "the height is not cut";
    layers.insert(layer);
    const auto window = [&](const at::Tensor& image) {
      return at::roll(image.view({4, 5, 7, 2}), -layer, 0).narrow(0, 0, 2).narrow(2, column, 4).reshape({10, 4, 2});
    };
    EXPECT_TRUE(at::equal(seen[i], window(values[i])));
    EXPECT_TRUE(at::equal(of_one[i], window(values[0])));
  }
  EXPECT_EQ(layers.size(), 4U);
}

TEST(Patch, OfWholeImagesCutsNothing) {
  for (const std::vector<int64_t>& sides : {std::vector<int64_t>{}, {5, 6}}) {
    const Patch patch = Patch::of(flat(5, 6), sides, padded({"periodic"}));
    EXPECT_FALSE(patch.cuts());
    EXPECT_TRUE(patch.wraps.empty());
    EXPECT_FALSE(Windows(patch, kSeed, base::Stream::patch, at::kCPU).cuts());
  }
}

TEST(Patch, OfPeriodicAxesIsPaddedWithZerosWhereItIsCut) {
  nn::UNet2DConfig model = padded({"periodic"});
  const Patch patch = Patch::of(flat(8, 8), {4, 8}, model);
  EXPECT_THAT(patch.wraps, ElementsAre(true, false));
  pad_with_zeros(model, patch.wraps);
  EXPECT_THAT(model.padding, ElementsAre("zeros", "periodic"));
}

TEST(Patch, GreaterThanTheImageIsRefused) {
  for (const std::vector<int64_t>& sides : {std::vector<int64_t>{6, 6}, {5}, {2, 2, 2}}) {
    EXPECT_THAT(
        [&] {
          Patch::of(flat(5, 6), sides, padded({"zeros", "periodic"}));
        },
        testing::ThrowsMessage<base::ConfigError>(HasSubstr("images are 5 × 6; wanted: 2 sides")));
  }
}

TEST(Patch, IsRememberedByCheckpointsAndModelFolders) {
  ImageRecord image;
  image.height = 4;
  image.width = 6;
  image.depth = 2;
  image.wraps = {false, true, false};
  base::Json state = base::Json::object();
  write_image_record(image, state);
  const ImageRecord read = read_image_record(state, "M");
  EXPECT_THAT(read.sides(), ElementsAre(2, 4, 6));
  EXPECT_EQ(read.wraps, image.wraps);
  ImageRecord of_folder;
  of_folder.set_normalization(image.record_json(), "N");
  EXPECT_EQ(of_folder.wraps, image.wraps);
  base::Json folder = image.record_json();
  for (const char* text : {"true", "[]", "[true]", "[1, 0]", "[true, true, true, true]", "{}"}) {
    state["wraps"] = text;
    EXPECT_THROW(read_image_record(state, "M"), base::OutputError) << text;
    folder["wraps"] = base::Json::parse(text);
    EXPECT_THROW(of_folder.set_normalization(folder, "N"), base::OutputError) << text;
  }
}

/// What normalization.json of an earlier version lacks does not tell models apart.
TEST(Patch, SidesOfWholeImagesAreRemembered) {
  ImageRecord image;
  image.height = image.width = 4;
  image.whole = {24, 32};
  base::Json state = base::Json::object();
  write_image_record(image, state);
  EXPECT_THAT(read_image_record(state, "M").whole_sides(), ElementsAre(24, 32));
  base::Json folder = image.record_json();
  ImageRecord of_folder;
  of_folder.set_normalization(folder, "N");
  EXPECT_EQ(of_folder.whole, image.whole);
  EXPECT_FALSE(image.normalization_json().contains("whole"));
  ImageRecord older = image;
  older.whole.clear();
  EXPECT_TRUE(older.is_like(image));
  for (const char* text : {"3", "[]", "[4]", "[4, 0]", "[4, 1e9]", "[4, \"8\"]", "[4, 65537]", "[4, 4, 4, 4]", "{}"}) {
    state["image_whole"] = text;
    EXPECT_THROW(read_image_record(state, "M"), base::OutputError) << text;
    folder["whole"] = base::Json::parse(text);
    EXPECT_THROW(of_folder.set_normalization(folder, "N"), base::OutputError) << text;
  }
}

}  // namespace
}  // namespace ddpm::denoise
