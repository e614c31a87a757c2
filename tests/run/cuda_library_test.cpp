// Tests when run_program() opens libddpm_cuda.so; a library without CUDA lies beside this program in its place.
#include <cstdlib>
#include <filesystem>
#include <string>

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

TEST(CudaLibrary, NcclFindsItsSettingsAndTheUsersFirst) {
  unsetenv("NCCL_GRAPH_REGISTER");
  body_finds_it_open(CudaLibrary::if_needed);
  EXPECT_STREQ(std::getenv("NCCL_GRAPH_REGISTER"), "0");
  setenv("NCCL_GRAPH_REGISTER", "1", 1);
  body_finds_it_open(CudaLibrary::if_needed);
  EXPECT_STREQ(std::getenv("NCCL_GRAPH_REGISTER"), "1");
}

}  // namespace
}  // namespace ddpm::run
