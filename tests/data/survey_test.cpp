// Statistics and faults of a set, found by all ranks together.
#include "data/survey.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>

#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "h5/file.h"

namespace ddpm::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ImageFormat kSurveyed{.height = 3, .width = 4, .channels = 2, .dtype = base::DType::f32};
constexpr int64_t kImages = 1500;  // more than there are pieces

class SurveyTest : public SharedFolderTest {
 protected:
  /// A bare file of sample images; in those of `bad`, element 13 (row 1, column 2, channel 1) is infinite.
  Path make(const ImageFormat& format, int64_t count, const std::vector<int64_t>& bad = {}) const {
    Path path = folder_ / "images.h5";
    on_rank_0([&] {
      std::filesystem::remove(path);
      base::posix_file_system()->create_exclusive(path)->close();
      h5::File file = h5::File::create(path, {});
      const auto element = format.dtype == base::DType::u8 ? h5::Element::u8 : h5::Element::f32;
      h5::Array images =
          file.create_array("/images", element, std::vector{count, format.height, format.width, format.channels});
      for (int64_t i = 0; i < count; ++i) {
        std::vector<std::byte> image = sample_image(format, i);
        const float infinite = INFINITY;
        if (std::ranges::count(bad, i) > 0) std::memcpy(&image[13 * sizeof(infinite)], &infinite, sizeof(infinite));
        images.write_rows(i, 1, image);
      }
      images.close();
      file.close();
    });
    return path;
  }

  Survey look(const Path& path, const SurveyOptions& options = {}) const {
    Dataset set = Dataset::open(comm(), path);
    Survey result = survey(comm(), set, options);
    set.close(comm());
    return result;
  }
  /// What one rank alone finds.
  static Survey look_alone(const Path& path) {
    const auto self = comm().split(comm().rank(), 0);
    Dataset set = Dataset::open(*self, path);
    Survey result = survey(*self, set, {});
    set.close(*self);
    return result;
  }
};

TEST_F(SurveyTest, StatisticsHaveTheSameBitsOnAnyNumberOfRanks) {
  for (const auto dtype : {base::DType::f32, base::DType::u8}) {
    ImageFormat format = kSurveyed;
    format.dtype = dtype;
    const Path path = make(format, kImages);
    const Survey all = look(path);
    EXPECT_EQ(all.images, kImages);
    EXPECT_EQ(all.unusable, 0);
    EXPECT_EQ(all.statistics, look_alone(path).statistics);
    Statistics wanted(format);
    for (int64_t i = 0; i < kImages; ++i) wanted.add(sample_image(format, i));
    for (std::size_t c = 0; c < 2; ++c) {
      const ChannelStatistics w = wanted.result()[c];
      EXPECT_NEAR(all.statistics[c].mean, w.mean, 1e-12 * std::abs(w.mean));
      EXPECT_NEAR(all.statistics[c].std, w.std, 1e-12 * w.std);
      EXPECT_EQ(all.statistics[c].min, w.min);
      EXPECT_EQ(all.statistics[c].max, w.max);
    }
  }
}

TEST_F(SurveyTest, ImagesThatCannotBeUsedAreCountedAndTheFirstAreNamed) {
  const Path path = make(kSurveyed, kImages, {7, 300, 301, 302, 700, 1200, 1499});
  const Survey seen = look(path);
  EXPECT_EQ(seen.images, kImages);
  EXPECT_EQ(seen.unusable, 7);
  ASSERT_EQ(seen.faults.size(), Survey::kMostNamed);
  const std::string wanted =
      path.string() +
      ":/images: image 7 (number 7 of the dataset) holds inf in channel 1 at row 1, column 2; finite values are wanted";
  EXPECT_EQ(seen.faults.front(), wanted);
  EXPECT_THAT(seen.faults.back(), HasSubstr("image 700 "));
  EXPECT_EQ(seen.statistics, look_alone(path).statistics);
  EXPECT_LT(seen.statistics[1].max, 100.0) << "an image that cannot be used counted";
}

TEST_F(SurveyTest, ASetWithoutUsableImagesHasNoStatistics) {
  const Survey seen = look(make(kSurveyed, 2, {0, 1}));
  EXPECT_EQ(seen.unusable, 2);
  EXPECT_THAT(seen.statistics, IsEmpty());
}

TEST_F(SurveyTest, ASampleIsSpreadOverTheSet) {
  const Path path = make(kSurveyed, 100, {0, 50, 51, 75});
  const Survey seen = look(path, {.most_images = 4});
  EXPECT_EQ(seen.images, 4);
  EXPECT_EQ(seen.unusable, 3) << "0, 25, 50 and 75 are read";
  EXPECT_THAT(seen.faults[1], HasSubstr("image 50 "));
  EXPECT_EQ(look(path, {.most_images = 1000}).images, 100);
}

TEST_F(SurveyTest, ASampleIsBoundedInImagesAndBytes) {
  Dataset set = Dataset::open(comm(), make(kSurveyed, kImages));
  const auto bytes = static_cast<int64_t>(kSurveyed.bytes());
  EXPECT_EQ(sample_size(set, 100, 1000 * bytes), 100);
  EXPECT_EQ(sample_size(set, 100, 50 * bytes), 50);
  EXPECT_EQ(sample_size(set, 100, bytes), 16) << "too few images say nothing";
  EXPECT_EQ(sample_size(set, 10'000, 10'000 * bytes), kImages);
  set.close(comm());
}

TEST_F(SurveyTest, AFileThatChangesIsNoUnusableImage) {
  const Path path = make(kSurveyed, kImages);
  Dataset set = Dataset::open(comm(), path);
  on_rank_0([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // files' times have the kernel's grain
    test::flip_bit(path, 4096 + 100);
  });
  EXPECT_THAT(refusal([&] { return survey(comm(), set, {}).images; }), HasSubstr("it was changed since it was opened"));
  EXPECT_THAT(refusal([&] { return survey(comm(), set, {.most_images = 4}).images; }),
              HasSubstr("it was changed since it was opened"));
  set.close(comm());
}

TEST_F(SurveyTest, ProgressReachesItsTotalOnEachRank) {
  const Path path = make(kSurveyed, 100);
  Dataset set = Dataset::open(comm(), path);
  int64_t last = 0;
  int64_t whole = -1;
  survey(comm(), set, {.statistics = false}, [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    last = done;
    whole = total;
  });
  EXPECT_EQ(last, whole);
  EXPECT_EQ(whole, 100) << "the images of all ranks";
  set.close(comm());
}

}  // namespace
}  // namespace ddpm::data
