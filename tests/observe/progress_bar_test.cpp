#include "observe/progress_bar.h"

#include <array>
#include <memory>

#include <gmock/gmock.h>

#include "base/log.h"
#include "base/status_line.h"

namespace ddpm::observe {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ProgressBarTest : public testing::Test {
 protected:
  ProgressBarOptions options() const {
    return {.label = "train", .unit = "step", .first = 100, .total = 300, .images_per_unit = 32};
  }
  ProgressBar bar(ProgressStyle style) {
    return {style, options(), [this] { return now_; }, out_.get()};
  }
  std::FILE* out() { return out_.get(); }
  /// What was printed since the last call.
  std::string printed() {
    std::fflush(out_.get());
    std::rewind(out_.get());
    std::string text;
    std::array<char, 256> piece{};
    while (std::fgets(piece.data(), piece.size(), out_.get()) != nullptr) text += piece.data();
    std::rewind(out_.get());
    EXPECT_EQ(ftruncate(fileno(out_.get()), 0), 0);
    return text;
  }

  double now_ = 1000.0;

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> out_{std::tmpfile(), std::fclose};
};

TEST_F(ProgressBarTest, LinesComeNowAndThenAndAtTheEnd) {
  ProgressBar progress = bar(ProgressStyle::lines);
  now_ = 1010.0;
  progress.update(110);
  EXPECT_THAT(printed(), IsEmpty());
  now_ = 1040.0;
  progress.update(140, 0.25);
  // 40 steps of 32 images in 40 s; 160 steps are left.
  EXPECT_EQ(printed(), "ddpm: train: step 140/300, loss 0.2500, 32.0 images/s, 40s passed, 2m40s left\n");
  now_ = 1041.0;
  progress.update(300);
  EXPECT_THAT(printed(), AllOf(HasSubstr("step 300/300"), Not(HasSubstr("left")), EndsWith("\n")));
}

TEST_F(ProgressBarTest, WorkMayHaveBegunBeforeItsSizeWasKnown) {
  ProgressBarOptions late = options();
  late.began = now_;
  now_ = 1010.0;
  ProgressBar progress(
      ProgressStyle::lines, late, [this] { return now_; }, out());
  progress.update(300);
  EXPECT_EQ(printed(), "ddpm: train: step 300/300, 640.0 images/s, 10s passed\n");
}

TEST_F(ProgressBarTest, ABarRedrawsItsLineAndEndsIt) {
  {
    ProgressBar progress = bar(ProgressStyle::bar);
    now_ = 1000.1;
    progress.update(101);
    EXPECT_THAT(printed(), IsEmpty()) << "too soon to draw again";
    now_ = 1001.0;
    progress.update(150);
    EXPECT_THAT(printed(), AllOf(HasSubstr("\r"), HasSubstr("[############............]"), Not(HasSubstr("\n"))));
  }
  EXPECT_EQ(printed(), "\n");
}

TEST_F(ProgressBarTest, OtherTextFindsAFreeLine) {
  {
    ProgressBar progress = bar(ProgressStyle::bar);
    EXPECT_FALSE(base::take_status_line(out())) << "nothing was drawn yet";
    progress.update(300);
    printed();
    EXPECT_FALSE(base::take_status_line(stderr)) << "the bar is elsewhere";
    EXPECT_TRUE(base::take_status_line(out()));
  }
  EXPECT_THAT(printed(), IsEmpty()) << "no bar was left to end";
}

TEST(StatusLine, AMessageErasesTheBarFirst) {
  testing::internal::CaptureStderr();
  ProgressBar progress(ProgressStyle::bar, {.label = "train", .total = 10});
  progress.update(10);
  base::Logger(0, 1).info("saved");
  base::Logger(0, 1).info("done");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), EndsWith("\r\x1b[Kddpm: saved\nddpm: done\n"));
}

TEST_F(ProgressBarTest, OffIsSilent) {
  ProgressBar progress = bar(ProgressStyle::off);
  progress.update(300);
  EXPECT_THAT(printed(), IsEmpty());
}

TEST(ProgressStyle, OnlyTheSpeakingRankShowsAnything) {
  EXPECT_EQ(progress_style(ProgressChoice::automatic, true, true), ProgressStyle::bar);
  EXPECT_EQ(progress_style(ProgressChoice::automatic, true, false), ProgressStyle::lines);
  EXPECT_EQ(progress_style(ProgressChoice::bar, true, false), ProgressStyle::bar);
  EXPECT_EQ(progress_style(ProgressChoice::lines, true, true), ProgressStyle::lines);
  EXPECT_EQ(progress_style(ProgressChoice::off, true, true), ProgressStyle::off);
  EXPECT_EQ(progress_style(ProgressChoice::bar, false, true), ProgressStyle::off);
}

TEST(FormatDuration, ShowsTheTwoLargestUnits) {
  EXPECT_EQ(format_duration(0.4), "under 1s");
  EXPECT_EQ(format_duration(0.6), "1s");
  EXPECT_EQ(format_duration(59.4), "59s");
  EXPECT_EQ(format_duration(61), "1m01s");
  EXPECT_EQ(format_duration(3700), "1h01m");
  EXPECT_EQ(format_duration(90000), "1d01h");
}

}  // namespace
}  // namespace ddpm::observe
