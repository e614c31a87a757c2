#include "denoise/model_fit.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpm::denoise {
namespace {

/// What is said of a model without a record, such as a folder of another program.
std::string refusal_of(int64_t in_channels, int64_t out_channels) {
  nn::UNet2DConfig model;
  model.in_channels = in_channels;
  model.out_channels = out_channels;
  try {
    expect_record_of(model, {});
  } catch (const base::OutputError& error) {
    return error.what();
  }
  return "";
}

TEST(ModelFit, WithoutARecordAModelSeesWhatItAnswersWith) {
  EXPECT_EQ(refusal_of(3, 3), "");
  EXPECT_THAT(refusal_of(5, 3),
              testing::StartsWith("the model sees 5 channels, but only 3 of its record say what they are; "));
  EXPECT_EQ(refusal_of(1, 2),
            "the model sees 1 channel and answers with 2; wanted: as many of each as its images have, without "
            "a learned variance");
}

}  // namespace
}  // namespace ddpm::denoise
