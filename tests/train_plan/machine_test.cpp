#include "train/plan/machine.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::train::plan {
namespace {

TEST(Machine, NamedOnesScaleWithThreadsAndPorts) {
  EXPECT_DOUBLE_EQ(find_machine("cpu", 8, 1).tflops, 8 * find_machine("cpu", 1, 1).tflops);
  EXPECT_DOUBLE_EQ(find_machine("h100", 1, 4).network_gb_per_s, 4 * find_machine("h100", 1, 1).network_gb_per_s);
  EXPECT_GT(find_machine("h200", 1, 1).memory_gib, find_machine("h100", 1, 1).memory_gib);
}

TEST(Machine, AFileSetsWhatWasMeasured) {
  const std::string path = testing::TempDir() + "machine.toml";
  std::ofstream(path) << "[machine]\nname = \"ours\"\nnetwork_gb_per_s = 24.5\n";
  const Machine machine = find_machine(path, 2, 1);
  EXPECT_EQ(machine.name, "ours");
  EXPECT_EQ(machine.network_gb_per_s, 24.5);
  EXPECT_EQ(machine.tflops, find_machine("cpu", 2, 1).tflops);
  std::ofstream(path) << "[machine]\nnetwork = 24.5\n";
  EXPECT_THROW(find_machine(path, 2, 1), base::ConfigError);
}

TEST(Machine, TheCommandLineOverrides) {
  Machine machine = find_machine("a100", 1, 4);
  const std::vector<std::string> words{"--machine.tflops", "33", "--machine.node_latency_us=7"};
  override_machine(machine, words);
  EXPECT_EQ(machine.tflops, 33.0);
  EXPECT_EQ(machine.node_latency_us, 7.0);
}

TEST(Machine, AnUnknownNameIsRefused) { EXPECT_THROW(find_machine("b1000", 1, 1), base::ConfigError); }

}  // namespace
}  // namespace ddpm::train::plan
