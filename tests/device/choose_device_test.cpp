#include "device/choose_device.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace ddpm::device {
namespace {

/// LibTorch's settings are those of the whole process.
class ChooseKernels : public testing::Test {
 protected:
  void TearDown() override {
    at::Context& torch = at::globalContext();
    torch.setDeterministicAlgorithms(false, false);
    torch.setDeterministicFillUninitializedMemory(true);
    torch.setDeterministicCuDNN(false);
    torch.setBenchmarkCuDNN(false);
    torch.setAllowTF32CuBLAS(false);
    torch.setAllowTF32CuDNN(true);
  }
};

TEST_F(ChooseKernels, AGpuTakesTheFastestConvolutionsAndTf32WhereItMay) {
  const at::Context& torch = at::globalContext();
  for (const bool allowed : {true, false}) {
    choose_kernels({at::kCUDA, 0}, {.reproducible = false, .allow_tf32 = allowed});
    EXPECT_TRUE(torch.benchmarkCuDNN());
    EXPECT_FALSE(torch.deterministicAlgorithms());
    EXPECT_EQ(torch.allowTF32CuBLAS(), allowed);
    EXPECT_EQ(torch.allowTF32CuDNN(), allowed);
  }
}

TEST_F(ChooseKernels, AReproducibleRunTakesNoneThatTimingsChoose) {
  const at::Context& torch = at::globalContext();
  choose_kernels({at::kCUDA, 0}, {.reproducible = true});
  EXPECT_FALSE(torch.benchmarkCuDNN());
  EXPECT_TRUE(torch.deterministicCuDNN());
  EXPECT_TRUE(torch.deterministicAlgorithms());
  EXPECT_FALSE(torch.deterministicFillUninitializedMemory());
}

TEST_F(ChooseKernels, GpusThatMustAgreeChooseNoneByTimings) {
  const at::Context& torch = at::globalContext();
  choose_kernels({at::kCUDA, 0}, {.same_on_ranks = true});
  EXPECT_FALSE(torch.benchmarkCuDNN());
  EXPECT_TRUE(torch.deterministicCuDNN());
  EXPECT_TRUE(torch.deterministicAlgorithms());
}

/// When they are chosen other threads may be reading it.
TEST_F(ChooseKernels, TheEnvironmentStaysAsItIs) {
  const char* name = "CUBLAS_WORKSPACE_CONFIG";
  unsetenv(name);
  choose_kernels({at::kCUDA, 0}, {.reproducible = true});
  EXPECT_EQ(std::getenv(name), nullptr);
}

TEST(CublasWorkspace, IsLeftAloneWithoutThePartForGpus) {
  const char* name = "CUBLAS_WORKSPACE_CONFIG";
  unsetenv(name);
  choose_cublas_workspace();
  EXPECT_EQ(std::getenv(name), nullptr);
}

TEST_F(ChooseKernels, InferenceTakesNoneByTimingsAndTf32WhereTheRunMay) {
  const at::Context& torch = at::globalContext();
  for (const bool allowed : {true, false}) {
    choose_kernels({at::kCUDA, 0}, {.allow_tf32 = !allowed});
    choose_inference_kernels({at::kCUDA, 0}, allowed);
    EXPECT_FALSE(torch.benchmarkCuDNN());
    EXPECT_FALSE(torch.deterministicAlgorithms());
    EXPECT_EQ(torch.allowTF32CuBLAS(), allowed);
    EXPECT_EQ(torch.allowTF32CuDNN(), allowed);
  }
}

TEST_F(ChooseKernels, TheCpuKeepsItsOwn) {
  const at::Context& torch = at::globalContext();
  choose_kernels(at::kCPU, {.reproducible = false, .same_on_ranks = true});
  choose_inference_kernels(at::kCPU, /*allow_tf32=*/false);
  EXPECT_FALSE(torch.benchmarkCuDNN());
  EXPECT_FALSE(torch.deterministicAlgorithms());
  EXPECT_TRUE(torch.allowTF32CuDNN());
}

TEST(GpuOf, IsTheOneOfTheIndexAndTheFirstWithoutOne) {
  DeviceFacts facts;
  facts.gpus.resize(2);
  facts.gpus[0].name = "first";
  facts.gpus[1].name = "second";
  EXPECT_EQ(gpu_of(facts, {at::kCUDA, 1}).name, "second");
  EXPECT_EQ(gpu_of(facts, at::kCUDA).name, "first");
  EXPECT_EQ(gpu_of(facts, {at::kCUDA, 2}).name, "");
  EXPECT_EQ(gpu_of(facts, at::kCPU).name, "");
}

TEST(SharedGpu, NamesTheFirstTwoRanksThatHaveOne) {
  const std::vector<std::string> apart{"0000:18:00.0 of a", "0000:3b:00.0 of a", "0000:18:00.0 of b", "", ""};
  EXPECT_EQ(shared_gpu(apart), "");
  const std::vector<std::string> shared{"0000:18:00.0 of a", "0000:3b:00.0 of a", "0000:3b:00.0 of a"};
  EXPECT_EQ(shared_gpu(shared),
            "ranks 1 and 2 have the same GPU, 0000:3b:00.0 of a; wanted: a GPU for each rank, or "
            "training with parallel.share_gpus");
}

}  // namespace
}  // namespace ddpm::device
