// UNet2D on a GPU against diffusers' UNet2DModel on a CPU, for every golden file, and in bf16 against itself in
// float32.
#include <ATen/Context.h>
#include <ATen/ops/mse_loss.h>
#include <gtest/gtest.h>

#include "nn/golden_gradients.h"

namespace ddpm::nn::test {
namespace {

const at::Device kGpu(at::kCUDA, 0);

class GoldenOnGpu : public testing::TestWithParam<std::filesystem::path> {
 protected:
  GoldenOnGpu() : golden_(read_golden(GetParam())), unet_(config_from_json(golden_.config)) {
    // Products of TF32 have 11 bits.
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
  }

  void bind(at::ScalarType dtype) const {
    bind_weights(unet_.parameters(), golden_, at::TensorOptions(dtype).device(kGpu));
  }

  [[nodiscard]] at::Tensor predict() const {
    const auto there = [](const at::Tensor& t) { return t.defined() ? t.to(kGpu) : t; };
    const at::Tensor x = golden_.x.to(kGpu, at::kFloat, false, false, at::MemoryFormat::ChannelsLast);
    return unet_.forward(x, there(golden_.timesteps), there(golden_.class_labels), {});
  }

  GoldenCase golden_;
  UNet2D unet_;
};

TEST_P(GoldenOnGpu, PredictsWhatDiffusersPredicts) {
  const at::NoGradGuard no_grad;
  bind(at::kFloat);
  EXPECT_LT(relative_distance(predict().cpu(), golden_.output), 2e-5);
}

TEST_P(GoldenOnGpu, HasTheLossAndGradientsOfDiffusers) {
  bind(at::kFloat);
  const at::Tensor loss = at::mse_loss(predict(), golden_.target.to(kGpu));
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), golden_.loss, 1e-5 * golden_.loss);
  expect_gradients(unet_, golden_);
}

TEST_P(GoldenOnGpu, Bf16IsNearFloat32) {
  const at::NoGradGuard no_grad;
  bind(at::kBFloat16);
  EXPECT_LT(relative_distance(predict().cpu(), golden_.output), 5e-2);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenOnGpu, testing::ValuesIn(golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace ddpm::nn::test
