#include "run/run_folder.h"

#include <gmock/gmock.h>

#include "support/fake_communicator.h"
#include "support/sticky_files.h"
#include "support/temporary_folder.h"

namespace ddpm::run {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

class WarningCount : public base::LogListener {
 public:
  void take(std::string_view level, std::string_view /*message*/) noexcept override {
    if (level == "warning") ++count_;
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  int count_ = 0;
};

/// A run on a disk that does not remove the models that stick.
class ModelsThatStick : public testing::Test {
 protected:
  void SetUp() override {
    ddpm::test::write_text(run_.path() / "config.toml", "");
    log_.listen(&warnings_);
  }
  [[nodiscard]] RunFolder folder() { return {files_, comm_, log_, run_.path(), configuration_}; }
  void make(const char* model, bool sticks) {
    files_.create_directory(run_.path() / model);
    ddpm::test::write_text(run_.path() / model / (sticks ? ddpm::test::kStuck : "model_index.json"), "{}");
  }
  [[nodiscard]] std::vector<std::string> names() const { return files_.list(run_.path()); }

  ddpm::test::TemporaryFolder run_;
  ddpm::test::StickyFiles files_;
  ddpm::test::TrafficCounts counts_;
  ddpm::test::FakeCommunicator comm_{0, 1, counts_};
  WarningCount warnings_;
  base::Logger log_{0, 1};
  config::Schema configuration_;
};

TEST_F(ModelsThatStick, DoNotEndARunThatIsDoneNorKeepItFromGoingOn) {
  make("model.previous", true);
  make("model", false);
  folder().drop_previous_model();
  EXPECT_THAT(names(), ElementsAre(StartsWith(".model.previous.tmp-"), "config.toml", "model"));
  EXPECT_EQ(warnings_.count(), 1);
  folder().claim();
  EXPECT_THAT(names(), ElementsAre(StartsWith(".model.previous.tmp-"), "config.toml", "model.previous"));
  EXPECT_EQ(warnings_.count(), 2);
  files_.let_go();
  folder().claim();
  EXPECT_THAT(names(), ElementsAre("config.toml", "model.previous"));
  EXPECT_EQ(warnings_.count(), 2);
}

TEST_F(ModelsThatStick, GiveUpTheirNameForTheNextPreviousModel) {
  make("model.previous", true);
  make("model", false);
  folder().claim();
  EXPECT_THAT(names(), ElementsAre(StartsWith(".model.previous.tmp-"), "config.toml", "model.previous"));
  EXPECT_TRUE(files_.exists(run_.path() / "model.previous" / "model_index.json"));
  EXPECT_EQ(warnings_.count(), 1);
}

TEST_F(ModelsThatStick, AreNoBestModelAnyMore) {
  make("model-best", true);
  folder().drop_best_model();
  EXPECT_THAT(names(), ElementsAre(StartsWith(".model-best.tmp-"), "config.toml"));
  EXPECT_EQ(warnings_.count(), 1);
  files_.let_go();
  folder().claim();
  EXPECT_THAT(names(), ElementsAre("config.toml"));
}

}  // namespace
}  // namespace ddpm::run
