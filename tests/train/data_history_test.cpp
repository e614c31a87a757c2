#include "train/data_history.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "train/training_facts.h"

namespace ddpm::train {
namespace {

TEST(DataHistory, IsReadAsItWasWritten) {
  const std::vector<DataPeriod> history = {{.images = 30, .pass = 30, .name = "a", .content_hash = "12"},
                                           {.first_step = 500,
                                            .first_epoch = 17,
                                            .images = 40,
                                            .pass = 110,
                                            .name = "b \"c\"",
                                            .content_hash = "34",
                                            .shares = {{.images = 5, .slots = 5}, {.images = 35, .slots = 105}},
                                            .set_orders = data::SetOrders::own}};
  base::Json state = base::Json::object();
  write_data_history(history, state);
  EXPECT_EQ(read_data_history(state, "M"), history);
  EXPECT_TRUE(read_data_history(base::Json::object(), "M").empty());
  EXPECT_EQ(text_of_earlier(history), "a, 30 images, steps 1 to 500");
  EXPECT_EQ(text_of_earlier({history.front()}), "");
}

TEST(DataHistory, PassesAreThoseOverEachSetAsItWas) {
  std::vector<DataPeriod> history = {{.images = 20, .pass = 20, .name = "a", .content_hash = "12"}};
  EXPECT_EQ(passes_of(history, 24, 8), 24.0 / 20.0);
  history.push_back({.first_step = 3, .first_epoch = 2, .images = 28, .pass = 28, .name = "b", .content_hash = "34"});
  EXPECT_EQ(passes_of(history, 24, 8), 24.0 / 20.0);
  EXPECT_EQ(passes_of(history, 48, 8), 24.0 / 20.0 + 24.0 / 28.0);
  history.front().pass = 60;  // weights of its parts show some of its images several times in a pass
  EXPECT_EQ(passes_of(history, 48, 8), 24.0 / 60.0 + 24.0 / 28.0);
}

TEST(DataHistory, ThatIsDamagedIsRefused) {
  for (const char* text : {"", "[]", "{}", "[1]", "[{}]", "[",
                           R"([{"first_step":-1,"first_epoch":0,"images":1,"name":"","content_hash":""}])",
                           R"([{"first_step":0,"first_epoch":0,"images":0,"name":"","content_hash":""}])",
                           R"([{"first_step":0,"first_epoch":0,"images":1,"name":1,"content_hash":""}])",
                           R"([{"first_step":0,"first_epoch":0,"images":1,"name":"","content_hash":"",)"
                           R"("set_images":[1],"set_slots":[1,1]}])",
                           R"([{"first_step":0,"first_epoch":0,"images":1,"name":"","content_hash":"",)"
                           R"("set_images":[1]}])",
                           R"([{"first_step":0,"first_epoch":0,"images":1,"name":"","content_hash":"",)"
                           R"("set_orders":"other"}])"}) {
    const base::Json state = {{"data_history", text}};
    EXPECT_THAT([&] { (void)read_data_history(state, "M"); },
                testing::ThrowsMessage<base::OutputError>(testing::StartsWith("M")))
        << text;
  }
  EXPECT_THROW((void)read_data_history({{"data_history", 1}}, "M"), base::OutputError);
}

TEST(DataHistory, OfAnotherRunIsRefused) {
  const std::vector<DataPeriod> history = {
      {.images = 30, .pass = 30, .name = "a", .content_hash = "12"},
      {.first_step = 500, .first_epoch = 17, .images = 40, .pass = 40, .name = "b", .content_hash = "34"}};
  const auto said = [](const std::vector<DataPeriod>& forged, int64_t step) -> std::string {
    base::Json state = {{"step", step}};
    write_data_history(forged, state);
    try {
      (void)read_data_history(state, "M");
    } catch (const base::OutputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said(history, 500), "");
  EXPECT_THAT(said(history, 499), testing::HasSubstr("'first_step' is 500, wanted 0 to 499"));
  std::vector<DataPeriod> forged = history;
  forged.front().first_step = 501;
  EXPECT_THAT(said(forged, 600), testing::HasSubstr("'first_step' is 500, wanted 501 to 600"));
  forged = history;
  forged.front().first_epoch = 18;
  EXPECT_THAT(said(forged, 600), testing::HasSubstr("'first_epoch' is 17, wanted 18 to "));
}

TEST(TrainingFacts, AreReadAsTheyWereWritten) {
  const TrainingFacts facts{.hardware = "2 ranks on 1 host; CPU: \"x\"",
                            .software = "LibTorch 2",
                            .program = "0.1.0",
                            .statistics = {{"t [K]", 1.5, 0.25, -3.0, 1e30}},
                            .counted_over = "256 sampled images"};
  base::Json state = base::Json::object();
  write_training_facts(facts, state);
  for (const auto& [key, value] : state.items()) EXPECT_FALSE(value.is_structured()) << key;
  const TrainingFacts read = read_training_facts(base::Json::parse(state.dump()), "M");
  EXPECT_EQ(read.hardware, facts.hardware);
  EXPECT_EQ(read.software, facts.software);
  EXPECT_EQ(read.program, facts.program);
  ASSERT_EQ(read.statistics.size(), 1);
  EXPECT_EQ(read.statistics[0].channel, "t [K]");
  EXPECT_EQ(read.statistics[0].max, 1e30);
  EXPECT_EQ(read.counted_over, facts.counted_over);
  EXPECT_TRUE(read_training_facts(base::Json::object(), "M").hardware.empty());  // of an earlier version
  for (const char* text : {"", "{}", "[1]", "[{}]", R"([{"channel":"a","mean":1,"deviation":1,"min":1}])",
                           R"([{"channel":1,"mean":1,"deviation":1,"min":1,"max":1}])"}) {
    const base::Json damaged = {{"training_statistics", text}};
    EXPECT_THAT([&] { (void)read_training_facts(damaged, "M"); },
                testing::ThrowsMessage<base::OutputError>(testing::StartsWith("M")))
        << text;
  }
}

}  // namespace
}  // namespace ddpm::train
