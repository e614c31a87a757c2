// Whose mask counts, by what the record of a model has.
#include "denoise/sample_mask.h"

#include <string>
#include <vector>

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "denoise/file_reading.h"

namespace ddpm::denoise {
namespace {

using testing::HasSubstr;

ImageRecord record_of(bool masked, bool per_set) {
  ImageRecord image{.height = 2, .width = 3, .dtype = base::DType::f32};
  image.fields = {data::make_field(data::FieldRole::image, "/images", {2, 3, 1}, base::DType::f32, false)};
  if (masked) {
    image.fields.push_back(data::make_field(data::FieldRole::mask, "/valid", {2, 3}, base::DType::u8, per_set));
  }
  return image;
}

TEST(SampleMask, OfTheSetBelongsToTheModelWhereItIsRecordedForImagesOfThatSize) {
  ImageRecord image = record_of(true, true);
  image.mask = {.sides = {2, 3}, .valid = {true, false, true, true, false, false}};
  EXPECT_EQ(mask_source(image), MaskSource::model);
  EXPECT_EQ(mask_to_read(image), "");
  EXPECT_EQ(mask_warning(image, nullptr), "");
  const at::Tensor wanted = at::tensor({1, 0, 1, 1, 0, 0}, at::kInt).to(at::kBool).view({1, 1, 2, 3});
  EXPECT_TRUE(mask_of_model(image, at::kCPU).equal(wanted));
  image.height = 4;
  EXPECT_EQ(mask_source(image), MaskSource::given);
  EXPECT_EQ(mask_to_read(image), "/valid");
  EXPECT_FALSE(mask_of_model(image, at::kCPU).defined());
  EXPECT_THAT(mask_warning(image, nullptr), HasSubstr("trained with a mask of 2 × 3, not of 4 × 3; images are drawn"));
}

TEST(SampleMask, OfAnOlderRecordOrOfEachImageIsThatOfTheSetThatIsGiven) {
  for (const bool per_set : {true, false}) {
    const ImageRecord image = record_of(true, per_set);
    EXPECT_EQ(mask_source(image), MaskSource::given);
    EXPECT_EQ(mask_to_read(image), "/valid");
    EXPECT_FALSE(gives_masks(image, nullptr));
    EXPECT_THAT(mask_warning(image, nullptr), HasSubstr(per_set ? "an older version" : "masks of its images"));
  }
}

TEST(SampleMask, OfAModelThatLearnedNoneIsNobodys) {
  for (const ImageRecord& image : {record_of(false, false), ImageRecord{.height = 2, .width = 3}}) {
    EXPECT_EQ(mask_source(image), MaskSource::nobody);
    EXPECT_EQ(mask_to_read(image), "");
    EXPECT_FALSE(mask_of_model(image, at::kCPU).defined());
    EXPECT_EQ(mask_warning(image, nullptr), "");
  }
}

TEST(SampleMask, OfForeignFilesIsRecordedAndReadWhereItIsKnown) {
  data::DatasetOptions reading{.condition = "sst", .mask = "sea", .variables = {"t2m"}};
  EXPECT_EQ(parse_file_reading(to_json(reading), "here"), reading);
  EXPECT_EQ(reading_of_conditions(reading, true).mask, "sea");
  EXPECT_EQ(reading_of_conditions(reading, true).mask_use, data::MaskUse::optional);
  reading.lead = 1;
  EXPECT_EQ(reading_of_conditions(reading, true).mask_use, data::MaskUse::lasting);
  reading = {.condition = "sst", .variables = {"t2m"}, .missing = data::Missing::mask};
  EXPECT_EQ(parse_file_reading(to_json(reading), "here"), reading);
  const data::DatasetOptions given = reading_of_conditions(reading, true);
  EXPECT_EQ(given.variables, reading.variables);
  EXPECT_EQ(given.stand_ins, std::vector<std::string>{"sst"});
  reading.lead = 1;
  EXPECT_EQ(reading_of_conditions(reading, true).missing, data::Missing::refuse);
  EXPECT_TRUE(reading_of_conditions(reading, true).stand_ins.empty());
}

}  // namespace
}  // namespace ddpm::denoise
