// UNet2D against diffusers' UNet2DModel: names, shapes, prediction, loss and gradients, for every golden file.
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <ATen/ops/mse_loss.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/golden_gradients.h"
#include "nn/ops/as_on_cuda.h"

namespace ddpm::nn::test {
namespace {

class Golden : public testing::TestWithParam<std::filesystem::path> {
 protected:
  Golden() : golden_(read_golden(GetParam())), unet_(config_from_json(golden_.config)) {}

  [[nodiscard]] at::Tensor predict() const {
    return unet_.forward(golden_.x, golden_.timesteps, golden_.class_labels, {});
  }

  GoldenCase golden_;
  UNet2D unet_;
};

TEST_P(Golden, HasTheParametersOfDiffusers) {
  std::map<std::string, std::pair<std::vector<int64_t>, bool>> ours, theirs;
  for (const Parameter* p : unet_.parameters()) ours[p->name] = {p->shape, p->role == base::ParameterRole::trained};
  for (const auto& [name, p] : golden_.parameters) theirs[name] = {p.shape, p.trained};
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(ours.size(), unet_.parameters().size()) << "a name occurs twice";
}

TEST_P(Golden, PredictsWhatDiffusersPredicts) {
  const at::NoGradGuard no_grad;
  bind_weights(unet_.parameters(), golden_, at::kFloat);
  EXPECT_LT(relative_distance(predict(), golden_.output), golden_.exact ? 2e-5 : 1e-5);
}

TEST_P(Golden, HasTheLossAndGradientsOfDiffusers) {
  bind_weights(unet_.parameters(), golden_, at::kFloat);
  const at::Tensor loss = at::mse_loss(predict(), golden_.target);
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), golden_.loss, 1e-5 * golden_.loss);
  expect_gradients(unet_, golden_);
}

TEST_P(Golden, HasThemByTheOperationsOfCuda) {
  const AsOnCuda as_on_cuda;
  bind_weights(unet_.parameters(), golden_, at::kFloat);
  const at::Tensor loss = at::mse_loss(predict(), golden_.target);
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), golden_.loss, 1e-5 * golden_.loss);
  expect_gradients(unet_, golden_);
}

TEST(GoldenRefusals, AreOursTooWithALineThatNamesAKey) {
  int wrongly_built = 0;
  for (const std::filesystem::path& file : golden_files(".refused.json")) {
    const base::Json refused = base::Json::parse(std::ifstream(file));
    base::Json config = refused.at("config");
    try {
      const UNet2D unet(config_from_json(config));
      const std::string problem =
          size_problem(unet.config(), {.height = refused.at("height"), .width = refused.at("width")});
      EXPECT_NE(problem, "") << file << ": diffusers says " << refused.at("diffusers");
      if (problem.empty()) ++wrongly_built;
    } catch (const base::ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("model.")) << file;
    }
  }
  EXPECT_EQ(wrongly_built, 0);
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, testing::ValuesIn(golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace ddpm::nn::test
