// Which kernels are chosen; nn_ops_test.default runs this with the baseline's.
#include "nn/ops/cpu/kernels.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <gtest/gtest.h>

namespace ddpm::nn::cpu {
namespace {

const Kernels* chosen(bool reproducible) {
  at::Context& torch = at::globalContext();
  torch.setDeterministicAlgorithms(reproducible, /*warn_only=*/false);
  const Kernels* const kernel = &kernels();
  torch.setDeterministicAlgorithms(false, /*warn_only=*/false);
  return kernel;
}

TEST(Kernels, OfReproducibleRunsFuseProductsAlsoOnTheBaseline) {
#if defined(__x86_64__)
  if (at::get_cpu_capability() == "DEFAULT") {
    EXPECT_EQ(chosen(true), &kBaselineFusedKernels);
    EXPECT_EQ(chosen(false), &kBaselineKernels);
    return;
  }
#endif
  EXPECT_EQ(chosen(true), chosen(false));
}

}  // namespace
}  // namespace ddpm::nn::cpu
