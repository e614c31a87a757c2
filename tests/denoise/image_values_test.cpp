#include "denoise/image_values.h"

#include <gmock/gmock.h>

namespace ddpm::denoise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr data::ChannelStatistics kStandard{.mean = 0.01, .std = 1.0, .min = -4.2, .max = 4.5};
constexpr data::ChannelStatistics kKelvin{.mean = 288.0, .std = 21.25, .min = 210.0, .max = 320.0};

diffusion::SchedulerConfig clipping(bool clips) {
  diffusion::SchedulerConfig scheduler;
  scheduler.clip_sample = clips;
  return scheduler;
}

std::vector<std::string> warnings(const std::vector<data::ChannelStatistics>& channels,
                                  const diffusion::SchedulerConfig& scheduler) {
  ImageValues values{.channels = channels, .origin = "all images"};
  for (std::size_t c = 0; c < channels.size(); ++c) values.names.push_back(fmt::format("channel {}", c));
  return value_warnings(values, scheduler, "fields.h5");
}

TEST(ValueWarnings, StandardisedValuesWithoutClippingAreFine) {
  EXPECT_THAT(warnings({kStandard, kStandard}, clipping(false)), IsEmpty());
  EXPECT_THAT(warnings({{.mean = 0.0, .std = 0.3, .min = -1.0, .max = 1.0}}, clipping(true)), IsEmpty());
}

TEST(ValueWarnings, ValuesFarFromUnitScaleAreNamedWithTheirNumbers) {
  EXPECT_THAT(warnings({kStandard, kKelvin}, clipping(false)),
              ElementsAre(AllOf(HasSubstr("fields.h5: values are far from unit scale, as all images show: channel 1 "
                                          "(mean 288, deviation 21.25, from 210 to 320); wanted: means within ±3"),
                                Not(HasSubstr("channel 0")))));
  const auto is_far = [](double mean, double std) {
    return !warnings({{.mean = mean, .std = std, .min = -1.0, .max = 1.0}}, clipping(false)).empty();
  };
  EXPECT_TRUE(is_far(-3.1, 1.0));
  EXPECT_FALSE(is_far(-3.0, 1.0));
  EXPECT_TRUE(is_far(0.0, 0.09));
  EXPECT_TRUE(is_far(0.0, 0.0));
  EXPECT_TRUE(is_far(0.0, 10.5));
  EXPECT_FALSE(is_far(0.0, 10.0));
  EXPECT_THAT(warnings({kKelvin, kKelvin, kKelvin, kKelvin, kKelvin}, clipping(false)),
              ElementsAre(AllOf(HasSubstr("channel 2 "), HasSubstr(" and 2 more"), Not(HasSubstr("channel 3")))));
}

TEST(ValueWarnings, ClippingThatCutsValuesIsNamedWithTheirNumbers) {
  EXPECT_THAT(warnings({kStandard}, clipping(true)),
              ElementsAre(AllOf(HasSubstr("samples will be cut at ±1 (diffusion.clip_sample = true)"),
                                HasSubstr("from -4.2 to 4.5"), HasSubstr("wanted: diffusion.clip_sample = false"))));
  diffusion::SchedulerConfig wide = clipping(true);
  wide.clip_sample_range = 5.0;
  EXPECT_THAT(warnings({kStandard}, wide), IsEmpty());
  diffusion::SchedulerConfig threshold = clipping(false);
  threshold.thresholding = true;
  EXPECT_THAT(warnings({kStandard}, threshold), ElementsAre(HasSubstr("diffusion.thresholding = true")));
  EXPECT_THAT(warnings({kStandard}, {}), ElementsAre(HasSubstr("clip_sample"))) << "the default of DDPMScheduler";
  threshold.formulation = diffusion::Formulation::edm;
  EXPECT_THAT(warnings({kStandard}, threshold), IsEmpty()) << "samplers of edm and flow cut nothing";
}

TEST(SigmaDataWarning, NamesADeviationThatSigmaDataIsNot) {
  diffusion::SchedulerConfig edm;
  edm.formulation = diffusion::Formulation::edm;
  const auto warning = [](const std::vector<data::ChannelStatistics>& channels, double sigma_data,
                          diffusion::SchedulerConfig scheduler) {
    scheduler.sigma_data = sigma_data;
    return sigma_data_warning({.channels = channels, .origin = "all images"}, scheduler, "fields.h5");
  };
  EXPECT_EQ(warning({kStandard, kStandard}, 0.5, edm),
            "fields.h5: the deviation of all values is 1 as the model sees them, as all images show, but "
            "diffusion.sigma_data = 0.5; wanted: diffusion.sigma_data = 1");
  EXPECT_EQ(warning({kStandard}, 0.7, edm), "");
  EXPECT_EQ(warning({kStandard}, 1.45, edm), "");
  EXPECT_THAT(warning({kStandard}, 1.55, edm), HasSubstr("sigma_data = 1.55; wanted: diffusion.sigma_data = 1"));
  EXPECT_EQ(warning({kStandard}, 0.5, {}), "") << "ddpm has no such key";
  // Means that differ are a part of the deviation: here one channel is 0 and the other 2 throughout.
  constexpr data::ChannelStatistics kNothing;
  EXPECT_EQ(warning({kNothing, {.mean = 2.0, .std = 0.0, .min = 2.0, .max = 2.0}}, 1.0, edm), "");
  EXPECT_EQ(warning({kNothing}, 0.5, edm), "") << "channels that hold one value have a warning of their own";
}

}  // namespace
}  // namespace ddpm::denoise
