// A run folder as it is while its run begins or ends.
#include <cstdint>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "report/run_record.h"
#include "support/forwarding_files.h"
#include "support/temporary_folder.h"

namespace ddpm::report {
namespace {

/// A run ends before its lock can be read.
class EndingRun final : public test::ForwardingFiles {
 public:
  [[nodiscard]] std::string read(const base::Path& path, uint64_t max) const override {
    if (path.filename() == "LOCK") std::filesystem::remove(path);
    return ForwardingFiles::read(path, max);
  }
};

TEST(ReadRun, ALockThatIsBeingMadeOrTakenAwayIsNoDamage) {
  const test::TemporaryFolder run;
  test::write_text(run.path() / "metrics.jsonl", "");
  for (const char* text : {"", "{\n  \"host\": \"node01\""}) {
    test::write_text(run.path() / "LOCK", text);
    const RunRecord begins = read_run(test::ForwardingFiles(), run.path());
    EXPECT_THAT(begins.damage, testing::IsEmpty()) << text;
    ASSERT_TRUE(begins.lock) << text;
    EXPECT_EQ(begins.lock->owner, "a run that begins") << text;
    EXPECT_GT(begins.lock->renewed, 0.0) << text;
    EXPECT_FALSE(begins.lock->ended) << text;
  }
  const RunRecord ends = read_run(EndingRun(), run.path());
  EXPECT_THAT(ends.damage, testing::IsEmpty());
  EXPECT_FALSE(ends.lock);
}

}  // namespace
}  // namespace ddpm::report
