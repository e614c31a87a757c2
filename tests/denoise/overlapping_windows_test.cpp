// Images that are drawn by windows: where these lie, and that their answers are averaged.
#include "denoise/overlapping_windows.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/solo_communicator.h"
#include "denoise/sampling.h"
#include "denoise/window_model.h"

namespace ddpm::denoise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

at::Tensor numbers(at::IntArrayRef shape) {
  const at::Tensor line = at::arange(at::empty(shape, at::TensorOptions(at::kMeta)).numel(), at::kFloat);
  return at::sin(line * 0.37).reshape(shape);
}

TEST(WindowStarts, CoverTheAxisAndOverlapByAsManyPixelsAsAsked) {
  for (int64_t window = 1; window <= 9; ++window) {
    for (int64_t side = window; side <= 40; ++side) {
      for (int64_t overlap = 0; overlap < window; ++overlap) {
        for (const bool wraps : {false, true}) {
          std::vector<int64_t> starts = window_starts(side, window, overlap, wraps);
          ASSERT_EQ(starts.front(), 0);
          if (wraps) {
            starts.push_back(side);
          } else {
            ASSERT_EQ(starts.back(), side - window);
          }
          for (std::size_t i = 1; i < starts.size(); ++i) {
            ASSERT_GT(starts[i], starts[i - 1]);
            ASSERT_LE(starts[i] - starts[i - 1], window - overlap) << side << " " << window << " " << overlap;
          }
        }
      }
    }
  }
  EXPECT_THAT(window_starts(64, 16, 4, false), ElementsAre(0, 12, 24, 36, 48));
  EXPECT_THAT(window_starts(64, 16, 4, true), ElementsAre(0, 10, 21, 32, 42, 53));
}

TEST(OverlappingWindows, GiveWhatADenoiserOfSinglePixelsGivesOfTheWholeImage) {
  struct Case {
    std::vector<int64_t> window, sides;
    std::vector<bool> wraps;
  };
  for (const Case& c : {Case{{4, 6}, {11, 9}, {}}, Case{{4, 6}, {11, 6}, {true, false}}, Case{{4, 4}, {4, 4}, {}},
                        Case{{2, 4, 4}, {5, 9, 4}, {false, true, false}}}) {
    LoadedModel model = model_of(c.window, c.wraps);
    const int64_t overlap = set_image_size(model, c.sides, std::nullopt);
    EXPECT_EQ(model.image.sides(), c.sides);
    const OverlappingWindows windows(model, overlap, at::kCPU);
    const data::ImageFormat image = model.image.format(3, base::DType::f32);
    const at::Tensor x = numbers({2, 3, image.rows(), image.width});
    at::Tensor wanted = at::exp(x) - x;
    for (const int64_t at_once : {1, 2, 100}) {
      const at::Tensor seen = windows.mean(2, at_once, [&](layout::Range range) {
        const at::Tensor part = windows.cut(x, range);
        return at::exp(part) - part;
      });
      EXPECT_TRUE(at::allclose(seen, wanted, 1e-6, 1e-6));
    }
  }
}

TEST(OverlappingWindows, AverageTheAnswersWhereWindowsOverlap) {
  LoadedModel model = model_of({4, 4}, {false, true});
  const OverlappingWindows windows(model, set_image_size(model, {6, 8}, 2), at::kCPU);
  EXPECT_EQ(windows.count(), 2 * 4);
  // Windows begin in rows 0 and 2, and in columns 0, 2, 4 and 6, the last of which goes on in column 0.
  const at::Tensor seen = windows.mean(1, 3, [](layout::Range range) {
    return at::arange(range.begin, range.end, at::kFloat).view({-1, 1, 1, 1}).expand({range.size(), 1, 4, 4});
  });
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t column = 0; column < 8; ++column) {
      double sum = 0.0;
      double count = 0.0;
      for (int64_t window = 0; window < 8; ++window) {
        const bool holds_row = row >= window / 4 * 2 && row < window / 4 * 2 + 4;
        const bool holds_column = (column - window % 4 * 2 + 8) % 8 < 4;
        if (!holds_row || !holds_column) continue;
        sum += static_cast<double>(window);
        ++count;
      }
      EXPECT_NEAR(seen[0][0][row][column].item<double>(), sum / count, 1e-6);
    }
  }
}

TEST(OverlappingWindows, GiveEachWindowWhatIsGivenWithItsImage) {
  LoadedModel model = model_of({4, 4});
  const OverlappingWindows windows(model, set_image_size(model, {4, 6}, 2), at::kCPU);
  ASSERT_EQ(windows.count(), 2);
  const at::Tensor beside = numbers({2, 1, 4, 6});
  const Given given{.beside = beside, .conditions = {at::tensor({7, 8}), at::tensor({1.0, 2.0}).unsqueeze(1)}};
  const Given part = windows.cut(given, {0, 2});
  EXPECT_TRUE(at::equal(part.conditions.class_labels, at::tensor({7, 7, 8, 8})));
  EXPECT_TRUE(at::equal(part.conditions.parameters.flatten(), at::tensor({1.0, 1.0, 2.0, 2.0})));
  EXPECT_FALSE(part.conditions.parameters_kept.defined());
  EXPECT_TRUE(at::equal(part.beside[1], beside[0].narrow(2, 2, 4)));
  EXPECT_TRUE(at::equal(part.beside[2], beside[1].narrow(2, 0, 4)));
}

TEST(ImageSize, ThatTheModelCannotDrawIsRefused) {
  const auto refusal = [](LoadedModel model, const std::vector<int64_t>& sides, std::optional<int64_t> overlap) {
    try {
      set_image_size(model, sides, overlap);
    } catch (const base::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(refusal(model_of({8, 16}), {8, 8}, {}), HasSubstr("--size 8x8: the model draws windows of 8x16"));
  EXPECT_THAT(refusal(model_of({8, 8}), {8}, {}), HasSubstr("wanted: 2 sides"));
  EXPECT_THAT(refusal(model_of({8, 8}), {16, 16}, 8), HasSubstr("--overlap 8: windows are 8x8; wanted: 0 to 7"));
  EXPECT_THAT(refusal(model_of({8, 16}), {8, 32}, 15), HasSubstr("none"));
  const auto ring = [] { return model_of({8, 8}, {}, {"periodic", "zeros"}); };
  EXPECT_THAT(refusal(ring(), {16, 8}, {}), HasSubstr("the model is periodic along its height; wanted: 8 there"));
  EXPECT_THAT(refusal(ring(), {8, 16}, {}), HasSubstr("none"));
}

/// A model that guides answers the same windows.
TEST(ImageSize, ThatTheWeakModelCannotDrawIsRefused) {
  comm::SoloCommunicator world;
  const auto refusal = [&](const std::vector<std::string>& padding, const std::vector<int64_t>& sides) {
    LoadedModel model = model_of({8, 16});
    LoadedModel weak = model_of({8, 16}, {}, padding);
    model.scheduler = weak.scheduler = base::Json::object();
    SamplingOptions options;
    options.guidance_scale = 2.0;
    options.weak = &weak;
    options.overlap = set_image_size(model, sides, std::nullopt);
    const SampleInputs inputs = SampleInputs::of_set(model, {}, std::nullopt, world, at::kCPU);
    try {
      (void)make_sampler(model, {}, inputs, options);
    } catch (const base::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal({"zeros", "periodic"}, {8, 32}),
            "--guidance-model: --size 8x32: the model is periodic along its width; wanted: 16 there, as in training");
  EXPECT_EQ(refusal({"zeros", "periodic"}, {16, 16}), "none");
  EXPECT_EQ(refusal({"zeros"}, {16, 32}), "none");
}

TEST(ImageSize, HasAnOverlapOfAQuarterOfTheWindow) {
  LoadedModel model = model_of({8, 16});
  EXPECT_EQ(set_image_size(model, {16, 16}, std::nullopt), 2);
  EXPECT_EQ(set_image_size(model, {8, 32}, std::nullopt), 4);
  EXPECT_EQ(set_image_size(model, {8, 32}, 0), 0);
}

}  // namespace
}  // namespace ddpm::denoise
