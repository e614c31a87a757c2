#include "run/run_start.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace ddpm::run {
namespace {

TEST(CountStart, RefusesARunThatGetsNowhere) {
  const ddpm::test::TemporaryFolder folder;
  const auto files = base::posix_file_system();
  const auto start = [&](int64_t step) { count_start(*files, folder.path(), step, 3); };
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(start(0));
  for (int i = 0; i < 2; ++i) {
    try {
      start(0);
      ADD_FAILURE() << "a fourth start from step 0";
    } catch (const base::CommunicationError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("started 3 times from step 0"));
    }
  }
  EXPECT_NO_THROW(count_start(*files, folder.path(), 0, 0)) << "there is no limit";
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(start(500)) << "it has come further";
  EXPECT_THROW(start(500), base::CommunicationError);
  for (const char* text : {"", "[", "{\"step\": \"x\"}", "{\"step\": 500, \"starts\": -9}"}) {
    ddpm::test::write_text(folder.path() / "starts.json", text);
    EXPECT_NO_THROW(start(500)) << text;
  }
}

}  // namespace
}  // namespace ddpm::run
