// What a run's configuration says of its model, and where the run is looked for.
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file_system.h"
#include "denoise/load_model.h"
#include "support/forwarding_files.h"
#include "support/temporary_folder.h"
#include "train/config.h"

namespace ddpm::train {
namespace {

denoise::RunModel read(const std::string& toml) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path file = folder.path() / "config.toml";
  std::ofstream(file) << toml;
  return read_run_model(file);
}

/// A disk on which no run is seen.
class WithoutRuns final : public test::ForwardingFiles {
 public:
  [[nodiscard]] bool exists(const base::Path& /*path*/) const override { return false; }
};

/// Resolves a configuration that starts from the model of `run`, and says nothing else.
void start_from(const base::Path& run, const base::FileSystem& files) {
  Configuration configuration;
  configuration.load_text(files, fmt::format("[model]\npretrained = \"{}\"\n", run.string()), "test");
}

TEST(RunModel, SaysWhetherItsProductsMayBeRoundedToTf32) {
  EXPECT_FALSE(read("[precision]\nallow_tf32 = false\n").allow_tf32);
  EXPECT_TRUE(read("[precision]\nallow_tf32 = true\n").allow_tf32);
  EXPECT_EQ(read("").allow_tf32, Config().precision.allow_tf32);
  EXPECT_EQ(denoise::LoadedModel().allow_tf32, Config().precision.allow_tf32);  // what tells of no run
}

TEST(RunModel, IsOfARunInTheFilesThatWereGiven) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "config.toml") << "";
  const auto disk = base::posix_file_system();
  EXPECT_THROW(start_from(folder.path(), *disk), base::ConfigError) << "run.directory is not set";
  EXPECT_THROW(start_from(folder.path(), WithoutRuns()), base::OutputError) << "a folder without a model";
}

}  // namespace
}  // namespace ddpm::train
