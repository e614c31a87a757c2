#include "train/data_history.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpm::train {
namespace {

TEST(DataHistory, IsReadAsItWasWritten) {
  const std::vector<DataPeriod> history = {
      {.images = 30, .name = "a", .content_hash = "12"},
      {.first_step = 500, .first_epoch = 17, .images = 40, .name = "b \"c\"", .content_hash = "34"}};
  base::Json state = base::Json::object();
  write_data_history(history, state);
  EXPECT_EQ(read_data_history(state, "M"), history);
  EXPECT_TRUE(read_data_history(base::Json::object(), "M").empty());
  EXPECT_EQ(text_of_earlier(history), "a, 30 images, steps 1 to 500");
  EXPECT_EQ(text_of_earlier({history.front()}), "");
}

TEST(DataHistory, ThatIsDamagedIsRefused) {
  for (const char* text : {"", "[]", "{}", "[1]", "[{}]", "[",
                           R"([{"first_step":-1,"first_epoch":0,"images":1,"name":"","content_hash":""}])",
                           R"([{"first_step":0,"first_epoch":0,"images":0,"name":"","content_hash":""}])",
                           R"([{"first_step":0,"first_epoch":0,"images":1,"name":1,"content_hash":""}])"}) {
    const base::Json state = {{"data_history", text}};
    EXPECT_THAT([&] { (void)read_data_history(state, "M"); },
                testing::ThrowsMessage<base::OutputError>(testing::StartsWith("M")))
        << text;
  }
  EXPECT_THROW((void)read_data_history({{"data_history", 1}}, "M"), base::OutputError);
}

}  // namespace
}  // namespace ddpm::train
