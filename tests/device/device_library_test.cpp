#include "device/device_library.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/gpu_signs.h"
#include "support/temporary_folder.h"

namespace ddpm::device {
namespace {

TEST(DeviceLibrary, WhatCannotBeLoadedIsAConfigurationErrorThatSaysWhatToDo) {
  try {
    const DeviceLibrary library("/nonexistent/libddpm_cuda.so");
    FAIL() << "opened a file that does not exist";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("GPUs cannot be used"),
                                             testing::HasSubstr("/nonexistent/libddpm_cuda.so"),
                                             testing::HasSubstr("CMake preset \"cuda\"")));
  }
}

/// Returns the file from which this process has libm.
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

TEST(Precision, GpusOlderThanBf16AreToldToTakeFp16) {
  const DeviceFacts::Gpu volta{.name = "Tesla V100-SXM2-32GB", .capability = 70};
  const DeviceFacts::Gpu ampere{.name = "NVIDIA A100-SXM4-80GB", .capability = 80};
  EXPECT_FALSE(has_bf16(volta));
  EXPECT_TRUE(has_bf16(ampere));
  EXPECT_TRUE(has_bf16({.name = "unknown"}));
  EXPECT_NO_THROW(expect_bf16(ampere));
  try {
    expect_bf16(volta);
    FAIL() << "took bf16 on a V100";
  } catch (const base::ConfigError& error) {
    const std::string line = error.what();
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_THAT(line, testing::AllOf(testing::HasSubstr("Tesla V100-SXM2-32GB (compute capability 7.0)"),
                                     testing::HasSubstr("take precision.mixed_precision = \"fp16\"")));
  }
}

std::string sign_of(const std::map<std::string, std::string>& variables,
                    const std::filesystem::path& devices = "/none") {
  const comm::Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return gpu_sign(environment, devices);
}

TEST(GpuSign, IsWhatTheJobOrTheMachineSays) {
  EXPECT_EQ(sign_of({}), "");
  EXPECT_EQ(sign_of({{"SLURM_JOB_GPUS", "0,1"}}), "SLURM_JOB_GPUS=0,1");
  EXPECT_EQ(sign_of({{"SLURM_GPUS_ON_NODE", "4"}, {"CUDA_VISIBLE_DEVICES", "0"}}), "SLURM_GPUS_ON_NODE=4");
  EXPECT_EQ(sign_of({{"CUDA_VISIBLE_DEVICES", "0"}}), "CUDA_VISIBLE_DEVICES=0");
  EXPECT_EQ(sign_of({{"SLURM_GPUS_ON_NODE", "0"}}), "");
}

TEST(GpuSign, HiddenGpusAreMeantToBeHidden) {
  for (const char* hidden : {"", "-1", "NoDevFiles"}) {
    EXPECT_EQ(sign_of({{"SLURM_JOB_GPUS", "0"}, {"CUDA_VISIBLE_DEVICES", hidden}}), "") << hidden;
  }
}

TEST(GpuSign, ADeviceFileIsOne) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(sign_of({}, folder.path()), "");
  test::write_text(folder.path() / "nvidia0", "");
  EXPECT_EQ(sign_of({}, folder.path()), (folder.path() / "nvidia0").string());
  EXPECT_EQ(sign_of({{"CUDA_VISIBLE_DEVICES", "-1"}}, folder.path()), "");
}

}  // namespace
}  // namespace ddpm::device
