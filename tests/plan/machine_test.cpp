#include "plan/machine.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::plan {
namespace {

TEST(Machine, NamedOnesScaleWithThreadsAndPorts) {
  EXPECT_DOUBLE_EQ(find_machine("cpu", 8, 1).tflops, 8 * find_machine("cpu", 1, 1).tflops);
  EXPECT_DOUBLE_EQ(find_machine("h100", 1, 4).network_gb_per_s, 4 * find_machine("h100", 1, 1).network_gb_per_s);
  EXPECT_GT(find_machine("h200", 1, 1).memory_gib, find_machine("h100", 1, 1).memory_gib);
}

TEST(Machine, NamesAreKnownEverywhere) {
  EXPECT_EQ(machine_names(), "cpu, v100, t4, a100, l40s, rtx4090, h100, h200, b200");
  EXPECT_FALSE(is_gpu("cpu"));
  EXPECT_FALSE(is_gpu("site.toml"));
  for (const char* name : {"v100", "t4", "a100", "l40s", "rtx4090", "h100", "h200", "b200"}) {
    EXPECT_TRUE(is_gpu(name));
    const Machine machine = find_machine(name, 1, 1);
    EXPECT_GE(machine.tflops_half, 1.9 * machine.tflops) << name;
    EXPECT_GT(machine.memory_gib, 0.0) << name;
  }
  EXPECT_EQ(usual_precision("t4"), optim::MixedPrecision::fp16);
  EXPECT_EQ(usual_precision("v100"), optim::MixedPrecision::fp16);
  EXPECT_EQ(usual_precision("rtx4090"), optim::MixedPrecision::bf16);
}

// Data sheets, dense: L40S 362.05 TFLOP/s in bf16, 864 GB/s; RTX 4090 165.2 and 1008; B200 2250 and 8000.
TEST(Machine, HasTheDataSheetsConstants) {
  EXPECT_NEAR(find_machine("l40s", 1, 1).tflops_half, 0.31 * 362.05, 0.1);
  EXPECT_NEAR(find_machine("rtx4090", 1, 1).tflops_half, 0.31 * 165.2, 0.1);
  EXPECT_NEAR(find_machine("b200", 1, 1).tflops_half, 0.31 * 2250.0, 0.1);
  EXPECT_EQ(find_machine("l40s", 1, 1).memory_gb_per_s, 864.0);
  EXPECT_EQ(find_machine("rtx4090", 1, 1).memory_gb_per_s, 1008.0);
  EXPECT_EQ(find_machine("b200", 1, 1).memory_gb_per_s, 8000.0);
}

TEST(Machine, GpusAreRecognisedByTheirNames) {
  EXPECT_EQ(machine_of_gpu("NVIDIA A100-SXM4-80GB"), "a100");
  EXPECT_EQ(machine_of_gpu("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(machine_of_gpu("NVIDIA H200"), "h200");
  EXPECT_EQ(machine_of_gpu("NVIDIA B200"), "b200");
  EXPECT_EQ(machine_of_gpu("NVIDIA L40S"), "l40s");
  EXPECT_EQ(machine_of_gpu("NVIDIA GeForce RTX 4090"), "rtx4090");
  EXPECT_EQ(machine_of_gpu("NVIDIA GeForce RTX 4090 Laptop GPU"), "");
  EXPECT_EQ(machine_of_gpu("Tesla V100-SXM2-32GB"), "v100");
  EXPECT_EQ(machine_of_gpu("Tesla T4"), "t4");
  EXPECT_EQ(machine_of_gpu("NVIDIA A10"), "");
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
}  // namespace ddpm::plan
