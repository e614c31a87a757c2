#include "denoise/class_label.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpm::denoise {
namespace {

using testing::HasSubstr;

const base::Logger kLog(0, 1);
const std::vector<std::string> kPets = {"cat", "dog", "newt"};

std::string refusal(const std::string& text, const std::vector<std::string>& names) {
  try {
    return std::to_string(class_of(text, names, kLog));
  } catch (const base::ConfigError& error) {
    return error.what();
  }
}

TEST(ClassOf, TakesANameOrANumber) {
  EXPECT_EQ(class_of("newt", kPets, kLog), 2);
  EXPECT_EQ(class_of("1", kPets, kLog), 1);
  EXPECT_EQ(class_of("1", {}, kLog), 1);
  EXPECT_EQ(class_of("7", kPets, kLog), 7) << "whether there is such a class is a question to the model";
  EXPECT_EQ(class_of("-1", kPets, kLog), -1);
}

TEST(ClassOf, ANumberThatIsAlsoANameIsANumberWhereThereIsSuchAClass) {
  const std::vector<std::string> names = {"0", "1", "10", "2", "2019"};  // folders in bytewise order
  EXPECT_EQ(class_of("1", names, kLog), 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(class_of("2", names, kLog), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ddpm: warning: --class-label 2 is taken for the number "
            "of class 2 (10); the class of that name is number 3\n");
  EXPECT_EQ(class_of("10", names, kLog), 2);
  EXPECT_EQ(class_of("2019", names, kLog), 4);
}

TEST(ClassOf, RefusesAnUnknownNameWithTheNearest) {
  EXPECT_EQ(refusal("cta", kPets), "--class-label cta: no class has this name; did you mean cat?");
  EXPECT_EQ(refusal("zebra", kPets), "--class-label zebra: no class has this name; the 3 classes are cat, dog, newt");
  EXPECT_THAT(refusal("cat", {}), HasSubstr("does not know the names of its classes; a number is wanted"));
  EXPECT_THAT(refusal("zebra", std::vector<std::string>(12, "a")), HasSubstr("the 12 classes are a, a, a, a, a, a, a, "
                                                                             "a, a, a ..."));
  EXPECT_THAT(refusal("1.5", kPets), HasSubstr("no class has this name"));
}

TEST(DescribedClass, HasItsNameWhereItIsKnown) {
  EXPECT_EQ(described_class(1, kPets), "class 1 (dog)");
  EXPECT_EQ(described_class(3, kPets), "class 3");
  EXPECT_EQ(described_class(-1, kPets), "class -1");
}

}  // namespace
}  // namespace ddpm::denoise
