// What a run's configuration says of how its model computes.
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/file_system.h"
#include "denoise/load_model.h"
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

TEST(RunModel, SaysWhetherItsProductsMayBeRoundedToTf32) {
  EXPECT_FALSE(read("[precision]\nallow_tf32 = false\n").allow_tf32);
  EXPECT_TRUE(read("[precision]\nallow_tf32 = true\n").allow_tf32);
  EXPECT_EQ(read("").allow_tf32, Config().precision.allow_tf32);
  EXPECT_EQ(denoise::LoadedModel().allow_tf32, Config().precision.allow_tf32);  // what tells of no run
}

}  // namespace
}  // namespace ddpm::train
