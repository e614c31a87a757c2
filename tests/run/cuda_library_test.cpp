// Tests when run_program() opens libddpm_cuda.so; a library without CUDA lies beside this program in its place.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "run/run_program.h"

namespace ddpm::run {
namespace {

bool is_open() {
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libddpm_cuda.so";
  EXPECT_TRUE(std::filesystem::exists(file));
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

/// Whether the library is open when the body of a program begins.
bool body_finds_it_open(CudaLibrary when) {
  std::string name = "program";
  char* arguments = name.data();
  bool open = false;
  const comm::StartOptions alone{.shares_work = false};
  EXPECT_EQ(run_program(
                1, &arguments, [&](const Runtime& /*runtime*/) { open = is_open(); }, alone, when),
            0);
  return open;
}

// A library stays open until the process ends, so the tests that need it closed come first.
TEST(CudaLibrary, IsOpenBeforeTheBodyWhereThereAreGpusAndOnlyThere) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_FALSE(body_finds_it_open(CudaLibrary::at_start)) << "without GPUs";
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  EXPECT_FALSE(body_finds_it_open(CudaLibrary::if_needed)) << "unasked";
  EXPECT_TRUE(body_finds_it_open(CudaLibrary::at_start));
}

TEST(CudaLibrary, NcclAndCublasFindTheirSettingsAndTheUsersFirst) {
  const std::vector<std::array<const char*, 3>> settings{{"NCCL_GRAPH_REGISTER", "0", "1"},
                                                         {"NCCL_LAUNCH_ORDER_IMPLICIT", "1", "0"},
                                                         {"CUBLAS_WORKSPACE_CONFIG", ":4096:8", ":16:8"}};
  for (const auto& [name, ours, users] : settings) {
    unsetenv(name);
    body_finds_it_open(CudaLibrary::if_needed);
    EXPECT_STREQ(std::getenv(name), ours);
    setenv(name, users, 1);
    body_finds_it_open(CudaLibrary::if_needed);
    EXPECT_STREQ(std::getenv(name), users);
  }
}

}  // namespace
}  // namespace ddpm::run
