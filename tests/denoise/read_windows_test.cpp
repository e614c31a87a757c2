// A model sees the same of windows that are read as of those that are cut out of whole images, bit for bit.
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "data/dataset.h"
#include "data/loader.h"
#include "data/shared_folder.h"
#include "denoise/model_inputs.h"
#include "denoise/upsample.h"
#include "diffusion/noise.h"
#include "h5/file.h"
#include "layout/tiling.h"
#include "support/bytes_read.h"

namespace ddpm::denoise {
namespace {

constexpr int64_t kImages = 5;
constexpr int64_t kGlobal = 8;
constexpr uint64_t kSeed = 11;
using Sides = std::vector<int64_t>;

struct Case {
  const char* name;
  Sides whole;
  Sides window;
  int64_t factor;  // of the condition
  std::vector<std::string> padding;
  bool shifted = false;
};

const std::vector<Case> kCases = {
    {"inside", {12, 18}, {6, 8}, 3, {"zeros", "zeros"}},
    {"around", {12, 18}, {6, 6}, 3, {"periodic", "periodic"}},
    {"one axis", {16, 20}, {8, 20}, 2, {"periodic", "zeros"}},
    {"fine condition", {12, 12}, {4, 4}, 1, {"periodic", "zeros"}},
    {"shifted along the other axis", {16, 16}, {4, 16}, 4, {"zeros", "periodic"}, true},
    {"volumes", {6, 12, 12}, {4, 6, 6}, 3, {"periodic", "zeros", "periodic"}},
};

std::vector<int64_t> with(std::vector<int64_t> shape, std::optional<int64_t> before, std::optional<int64_t> after) {
  std::vector<int64_t> all;
  if (before) all.push_back(*before);
  all.insert(all.end(), shape.begin(), shape.end());
  if (after) all.push_back(*after);
  return all;
}

class ReadWindows : public data::SharedFolderTest {
 protected:
  data::Dataset open(const Case& chosen, bool mask_of_set) {
    const data::Path path = folder_ / "set.h5";
    std::filesystem::remove(path);
    base::posix_file_system()->create_exclusive(path)->close();
    h5::File file = h5::File::create(path, {});
    std::mt19937 random(1);
    const auto add = [&](const char* name, const Sides& shape, bool is_mask) {
      h5::Array array = file.create_array(name, is_mask ? h5::Element::u8 : h5::Element::f32, shape);
      std::vector<std::byte> bytes(static_cast<std::size_t>(array.rows()) * array.row_bytes());
      for (std::size_t i = 0; i < bytes.size(); i += is_mask ? 1 : sizeof(float)) {
        const float value = static_cast<float>(random() % 1000) / 250.0F - 2.0F;
        if (is_mask) {
          bytes[i] = static_cast<std::byte>(value > 1.0F ? 0 : 1);
        } else {
          std::memcpy(&bytes[i], &value, sizeof(value));
        }
      }
      array.write_rows(0, array.rows(), bytes);
      array.close();
    };
    Sides coarse = chosen.whole;
    for (int64_t& side : coarse) side /= chosen.factor;
    add("/images", with(chosen.whole, kImages, 2), false);
    add("/condition", with(coarse, kImages, 3), false);
    add("/static", with(chosen.whole, {}, 1), false);
    add("/mask", with(chosen.whole, mask_of_set ? std::nullopt : std::optional(kImages), {}), true);
    file.close();
    return data::Dataset::open(comm(), path, {.condition = "/condition", .static_values = "/static", .mask = "/mask"});
  }
};

/// Grids of different numbers for a variable of the images and one of the condition.
void give_grids(data::Dataset& set) {
  std::vector<data::Field> fields = set.info().fields;
  for (data::Field& field : fields) {
    if (field.role != data::FieldRole::image && field.role != data::FieldRole::condition) continue;
    const auto points = static_cast<std::size_t>(field.format().pixels());
    data::PointScales scales{
        .sides = field.format().sides(), .mean = std::vector<float>(points), .std = std::vector<float>(points)};
    for (std::size_t p = 0; p < points; ++p) {
      scales.mean[p] = static_cast<float>(p % 97) / 8.0F;
      scales.std[p] = static_cast<float>(p % 13) / 4.0F;
    }
    field.variables.back().transform = data::Transform(std::move(scales));
  }
  set.set_transforms(fields);
}

Windows windows_of(const data::Dataset& set, const Case& chosen, const ShownTile& tile = {}) {
  nn::UNet2DConfig model;
  model.dimensions = std::ssize(chosen.padding);
  model.padding = chosen.padding;
  const Patch patch = Patch::of(set.image(), chosen.window, model);
  std::vector<bool> shifted;
  if (chosen.shifted) shifted = periodic_axes(model, chosen.whole.size());
  return {patch, kSeed, base::Stream::patch, at::kCPU, shifted, tile};
}

/// The first micro-batch of step 3, with windows read or cut.
ModelBatch batch_of(const data::Dataset& set, const Windows& windows, bool read, const Augmentation& augmentation,
                    const std::vector<Vector>& vectors) {
  const data::ImageOrder order(kImages, kSeed, {});
  data::BatchLoaderOptions options{
      .layout = layout::BatchLayout::make(kGlobal, kGlobal, 1), .first_step = 3, .end_step = 4, .prefetch = 0};
  if (read) options.windows = windows.to_read();
  data::BatchLoader loader(set, order, options);
  data::MicroBatch batch = loader.next();
  EXPECT_EQ(batch.windows, read);
  const auto fields = read ? options.windows->read_of(set.fields()) : set.fields();
  const ModelInputs inputs(set, /*positions=*/true, at::kCPU, windows, vectors);
  return inputs.batch(stored_batch(std::move(batch), fields, at::kCPU), augmentation);
}

TEST_F(ReadWindows, GiveTheModelTheBitsOfWindowsThatAreCut) {
  for (const Case& chosen : kCases) {
    for (const bool mask_of_set : {false, true}) {
      data::Dataset set = open(chosen, mask_of_set);
      give_grids(set);
      const Windows windows = windows_of(set, chosen);
      const bool square = chosen.window[chosen.window.size() - 2] == chosen.window.back();
      for (const int moves : {0, 1, 2}) {
        if (moves == 2 && !square) continue;
        const Augmentation augmentation{.seed = kSeed,
                                        .horizontal_flip = moves > 0,
                                        .vertical_flip = moves == 2,
                                        .quarter_turns = moves == 2,
                                        .condition_dropout = 0.3};
        const auto vectors =
            vectors_of(moves == 2 ? std::vector<std::string>{"channel 0, -channel 1"} : std::vector<std::string>{});
        const ModelBatch cut = batch_of(set, windows, false, augmentation, vectors);
        const ModelBatch read = batch_of(set, windows, true, augmentation, vectors);
        EXPECT_TRUE(at::equal(read.x0, cut.x0)) << chosen.name << ", moves " << moves;
        EXPECT_TRUE(at::equal(read.beside, cut.beside)) << chosen.name << ", moves " << moves;
        EXPECT_TRUE(at::equal(read.valid, cut.valid)) << chosen.name << ", moves " << moves;
      }
    }
  }
}

/// Mirrored left and right, and all that there is.
Augmentation moves(bool all) {
  return {.seed = kSeed, .horizontal_flip = true, .vertical_flip = all, .quarter_turns = all, .condition_dropout = 0.3};
}

/// The pixels of a tile in windows x [n, c, rows, width] of `sides`.
at::Tensor tile_of(const at::Tensor& x, const Sides& sides, const std::vector<layout::Range>& tile) {
  if (sides.size() == 2) return x.narrow(2, tile[0].begin, tile[0].size()).narrow(3, tile[1].begin, tile[1].size());
  at::Tensor volume = x.unflatten(2, {sides[0], sides[1]});
  for (std::size_t axis = 0; axis < 3; ++axis) {
    volume = volume.narrow(static_cast<int64_t>(axis) + 2, tile[axis].begin, tile[axis].size());
  }
  return volume.flatten(2, 3);
}

TEST_F(ReadWindows, OfTilesAreTheTilesOfWhatAWholeWindowIsSeenAs) {
  std::vector<Case> cases = kCases;
  cases.push_back({"whole images", {12, 12}, {12, 12}, 3, {"zeros", "periodic"}});
  cases.push_back({"whole volumes", {4, 6, 6}, {4, 6, 6}, 2, {"zeros", "zeros", "zeros"}});
  for (const Case& chosen : cases) {
    data::Dataset set = open(chosen, /*mask_of_set=*/true);
    give_grids(set);
    const std::size_t axes = chosen.window.size();
    const bool square = chosen.window[axes - 2] == chosen.window.back();
    const std::vector<int64_t> parts = axes == 3 ? Sides{2, 2, 2} : Sides{2, 2};
    const layout::Tiling tiling(chosen.window, parts, 1);
    for (const bool all : {false, true}) {
      if (all && !square) continue;
      const auto vectors =
          vectors_of(all ? std::vector<std::string>{"channel 0, -channel 1"} : std::vector<std::string>{});
      const ModelBatch whole = batch_of(set, windows_of(set, chosen), false, moves(all), vectors);
      for (int64_t tile = 0; tile < tiling.count(); ++tile) {
        const std::vector<layout::Range> pixels = tiling.cut_pixels(tile);
        const Windows windows = windows_of(set, chosen, {.pixels = pixels, .augmentation = moves(all)});
        for (const bool read : {false, true}) {
          const ModelBatch seen = batch_of(set, windows, read, moves(all), vectors);
          const auto wanted = [&](const at::Tensor& of_whole) { return tile_of(of_whole, chosen.window, pixels); };
          const std::string where =
              fmt::format("{}, moves {}, tile {}{}", chosen.name, all, tile, read ? ", read" : ", cut");
          EXPECT_TRUE(at::equal(seen.x0, wanted(whole.x0))) << where;
          EXPECT_TRUE(at::equal(seen.valid, wanted(whole.valid))) << where;
          // Whole conditions are upsampled by LibTorch.
          const bool cut = chosen.window != chosen.whole;
          EXPECT_TRUE(cut ? at::equal(seen.beside, wanted(whole.beside))
                          : at::allclose(seen.beside, wanted(whole.beside), 1e-6, 1e-6))
              << where;
        }
      }
    }
  }
}

TEST_F(ReadWindows, OfTilesNoOtherPixelsAreReadOrHeld) {
  const Case chosen{"large", {512, 512}, {512, 512}, 1, {"zeros", "zeros"}};
  const data::Dataset set = open(chosen, /*mask_of_set=*/true);
  const int64_t image = int64_t{512} * 512 * 5 * static_cast<int64_t>(sizeof(float));  // with its condition
  const auto expect = [&](const Sides& parts, int64_t part_held, int64_t part_read) {
    const layout::Tiling tiling(chosen.window, parts, 2);
    const Windows windows = windows_of(set, chosen, {.pixels = tiling.cut_pixels(5), .augmentation = moves(false)});
    const data::ImageOrder order(kImages, kSeed, {});
    const data::BatchLoaderOptions options{.layout = layout::BatchLayout::make(kGlobal, kGlobal, 1),
                                           .end_step = 1,
                                           .prefetch = 0,
                                           .windows = windows.to_read()};
    data::BatchLoader loader(set, order, options);
    const int64_t before = test::bytes_read();
    const data::MicroBatch batch = loader.next();
    const int64_t read = test::bytes_read() - before;
    EXPECT_GE(read, kGlobal * image / part_held);
    EXPECT_LE(read, kGlobal * image / part_read + kGlobal * (int64_t{1} << 16));
    std::size_t held = 0;
    for (const std::vector<std::byte>& values : batch.values) held += values.size();
    EXPECT_EQ(static_cast<int64_t>(held), kGlobal * image / part_held);
  };
  expect({8, 1}, 8, 8);
  expect({4, 2}, 8, 4);  // HDF5 reads 64 KiB at a time, and so what lies beside lines that are shorter
}

TEST(PlacesToRead, AreThoseThatAreCut) {
  const data::ImageFormat whole{.height = 40, .width = 50, .channels = 1};
  nn::UNet2DConfig model;
  model.padding = {"periodic", "zeros"};
  const Windows windows(Patch::of(whole, {8, 4}, model), kSeed, base::Stream::patch, at::kCPU);
  const at::Tensor first = windows.pixels(diffusion::step_tensor(9, at::kCPU), {100, 400}).select(1, 0).select(1, 0);
  for (int64_t i = 0; i < 300; ++i) {
    const std::vector<int64_t> begin = windows.to_read().place(9, 100 + i);
    ASSERT_EQ(first[i].item<int64_t>(), begin[0] * 50 + begin[1]);
  }
}

/// With windows of the whole field, all of it is upsampled.
TEST(UpsampledWindows, AreWhatLibTorchUpsamples) {
  for (const int64_t factor : {2, 3, 4}) {
    const at::Tensor flat = at::rand({2, 5, 6, 3});
    const std::vector<data::CoarseAxis> axes = {{.side = 5, .factor = factor}, {.side = 6, .factor = factor}};
    const Sides sides = {5 * factor, 6 * factor};
    std::vector<at::Tensor> coordinates;
    for (const int64_t side : sides) coordinates.push_back(at::arange(side, at::kLong).expand({2, side}));
    const at::Tensor seen = upsampled_windows(flat, axes, sides, false, coordinates);
    const at::Tensor wanted = at::upsample_bilinear2d(flat.permute({0, 3, 1, 2}).contiguous(), sides, false);
    EXPECT_LT((seen.permute({0, 3, 1, 2}) - wanted).abs().max().item<float>(), 1e-6);
  }
  const at::Tensor deep = at::rand({1, 3, 4, 5, 2});
  const std::vector<data::CoarseAxis> axes = {
      {.side = 3, .factor = 2}, {.side = 4, .factor = 2}, {.side = 5, .factor = 2}};
  const Sides sides = {6, 8, 10};
  std::vector<at::Tensor> coordinates;
  for (const int64_t side : sides) coordinates.push_back(at::arange(side, at::kLong).unsqueeze(0));
  const at::Tensor seen = upsampled_windows(deep.flatten(1, 2), axes, sides, false, coordinates);
  const at::Tensor wanted = at::upsample_trilinear3d(deep.permute({0, 4, 1, 2, 3}).contiguous(), sides, false);
  EXPECT_LT((seen.view({1, 6, 8, 10, 2}).permute({0, 4, 1, 2, 3}) - wanted).abs().max().item<float>(), 1e-6);
}

}  // namespace
}  // namespace ddpm::denoise
