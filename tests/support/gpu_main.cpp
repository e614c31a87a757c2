// GoogleTest's main for programs that need a GPU: opens libddpm_cuda.so as the program does for device = "cuda".
#include <cstdio>

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/device_library.h"
#include "support/cuda_library.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  try {
    const ddpm::device::DeviceLibrary library(ddpm::test::cuda_library());
    std::printf("%d GPUs\n", library.visible_devices());
  } catch (const ddpm::base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
