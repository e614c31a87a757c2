#include "plan/machine_here.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/machine.h"

namespace ddpm::plan {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(MachineHere, AGpuHasItsOwnMemoryAndNotThatOfTheDataSheet) {
  const MachineHere a100 =
      machine_with({.name = "NVIDIA A100-SXM4-40GB", .memory_bytes = 39 * kGiB + kGiB / 2, .capability = 80});
  EXPECT_EQ(a100.name, "a100");
  EXPECT_EQ(a100.label, "a100");
  EXPECT_EQ(a100.memory_gib, 39.5);
  EXPECT_FALSE(a100.on_host);
  EXPECT_EQ(constants_text(a100), "constants of machine \"a100\"");
  const MachineHere instance =
      machine_with({.name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb", .memory_bytes = 10 * kGiB, .capability = 90});
  EXPECT_EQ(instance.name, "h100");
  EXPECT_EQ(instance.memory_gib, 10.0);
}

TEST(MachineHere, AGpuWithoutConstantsIsNamedBesideTheOneThatStandsForIt) {
  for (const char* name : {"NVIDIA A10", "NVIDIA A30", "NVIDIA L4"}) {
    const MachineHere here = machine_with({.name = name, .memory_bytes = 22 * kGiB, .capability = 86});
    EXPECT_EQ(here.name, "h100");
    EXPECT_EQ(here.label, name);
    EXPECT_EQ(here.memory_gib, 22.0);
    EXPECT_EQ(usual_precision(here.name), optim::MixedPrecision::bf16);
    EXPECT_EQ(constants_text(here),
              fmt::format("constants of machine \"h100\", since none are known of the {} here", name));
  }
}

TEST(MachineHere, AnOldGpuWithoutConstantsStandsBesideAnOldOne) {
  const MachineHere here = machine_with({.name = "Quadro RTX 6000", .memory_bytes = 24 * kGiB, .capability = 75});
  EXPECT_EQ(here.name, "v100");
  EXPECT_EQ(here.label, "Quadro RTX 6000");
  EXPECT_EQ(usual_precision(here.name), optim::MixedPrecision::fp16);
  EXPECT_EQ(usual_precision(machine_with({.name = "Tesla V100-SXM2-32GB"}).name), optim::MixedPrecision::fp16);
}

TEST(MachineHere, AGpuThatNobodyCanAskIsTheUsualOne) {
  const MachineHere here = machine_with({});
  EXPECT_EQ(here.name, "h100");
  EXPECT_EQ(here.label, "h100");
  EXPECT_FALSE(here.memory_gib.has_value());
  EXPECT_FALSE(here.on_host);
}

}  // namespace
}  // namespace ddpm::plan
