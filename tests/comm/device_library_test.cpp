#include "comm/device_library.h"

#include <cmath>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::comm {
namespace {

struct Choice {
  int local_rank;
  int local_size;
  int visible;
  int device;
};

class ChooseDevice : public testing::TestWithParam<Choice> {};

TEST_P(ChooseDevice, GivesEachLocalRankItsOwn) {
  const Choice c = GetParam();
  EXPECT_EQ(choose_device(c.local_rank, c.local_size, c.visible), c.device);
}

INSTANTIATE_TEST_SUITE_P(Table, ChooseDevice,
                         testing::Values(Choice{0, 1, 1, 0},  // one rank, one GPU
                                         Choice{3, 4, 1, 0},  // srun --gpus-per-task=1: each rank sees its own only
                                         Choice{0, 4, 4, 0},  // all ranks see all GPUs
                                         Choice{3, 4, 4, 3},  //
                                         Choice{1, 2, 8, 1},  // fewer ranks than GPUs
                                         Choice{0, 1, 8, 0}));

TEST(ChooseDevice, FewerGpusThanRanksIsRefusedOnEveryRankWithTheNumbers) {
  for (int local_rank = 0; local_rank < 4; ++local_rank) {
    try {
      (void)choose_device(local_rank, 4, 2);
      ADD_FAILURE() << "rank " << local_rank << " was given a GPU";
    } catch (const base::ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("4 ranks were started on a host with 2 visible GPUs"));
    }
  }
}

TEST(DeviceLibrary, WhatCannotBeLoadedIsAConfigurationErrorThatSaysWhatToDo) {
  try {
    const DeviceLibrary library("/nonexistent/libddpm_cuda.so");
    FAIL() << "opened a file that does not exist";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("device = \"cuda\" was asked for"),
                                             testing::HasSubstr("/nonexistent/libddpm_cuda.so"),
                                             testing::HasSubstr("CMake preset \"cuda\"")));
  }
}

/// Where this process has libm from.
std::filesystem::path file_of_libm() {
  Dl_info info{};
  EXPECT_NE(dladdr(reinterpret_cast<const void*>(static_cast<double (*)(double)>(&std::cbrt)), &info), 0);
  return info.dli_fname;
}

TEST(DeviceLibrary, AnotherLibraryIsNotTakenForIt) {
  try {
    const DeviceLibrary library(file_of_libm());
    FAIL() << "took libm for the CUDA part";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr(fmt::format("has interface 0; this program wants {}", DeviceFunctions::kInterface)));
  }
}

TEST(DeviceLibrary, ANameIsNotSearchedForButLiesInTheWorkingDirectory) {
  try {
    const DeviceLibrary library("libm.so.6");
    FAIL() << "the dynamic linker searched for libm.so.6";
  } catch (const base::ConfigError& error) {
    const auto wanted = std::filesystem::current_path() / "libm.so.6";
    EXPECT_THAT(error.what(), testing::HasSubstr(wanted.string() + ": cannot open shared object file"));
  }
}

TEST(DeviceLibrary, WithoutAPathBothPlacesAreNamedWhereItIsNot) {
  try {
    const DeviceLibrary library;
    FAIL() << "found a CUDA part beside a test";
  } catch (const base::ConfigError& error) {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    const auto beside = (folder.parent_path() / "lib").string();
    EXPECT_THAT(error.what(),
                testing::HasSubstr(fmt::format("libddpm_cuda.so is neither in {} nor in {}", folder.string(), beside)));
  }
}

}  // namespace
}  // namespace ddpm::comm
