// Operations that units count from their sizes, against PyTorch's count of the same model where it computes them.
#include "nn/operations.h"

#include <fstream>

#include <gtest/gtest.h>

#include "nn/golden_case.h"
#include "nn/unet2d.h"

namespace ddpm::nn::test {
namespace {

std::filesystem::path golden_file(const std::string& name) {
  return std::filesystem::path(DDPM_TEST_DATA) / "golden" / (name + ".safetensors");
}

// Attention, embeddings of classes, shortcuts and both kinds of resampling are among the models.
TEST(Operations, OfAForwardPassAreThoseThatPyTorchCounts) {
  std::ifstream file(DDPM_TEST_DATA "/golden/operations.json");
  const base::Json configurations = base::Json::parse(file).at("configurations");
  EXPECT_EQ(configurations.size(), golden_files().size());
  for (const auto& [name, wanted] : configurations.items()) {
    SCOPED_TRACE(name);
    const UNet2D unet(config_from_json(read_golden(golden_file(name)).config));
    const Operations counted =
        unet.operations({.height = wanted.at("height").get<int64_t>(), .width = wanted.at("width").get<int64_t>()});
    EXPECT_EQ(counted.all, wanted.at("all").get<double>());
    EXPECT_EQ(counted.attention, wanted.at("attention").get<double>());
  }
}

class SizesOfUnits : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(SizesOfUnits, AreThoseOfTheirActivations) {
  const at::NoGradGuard no_grad;
  const GoldenCase g = read_golden(GetParam());
  const UNet2D unet(config_from_json(g.config));
  allocate(unet.parameters(), at::TensorOptions(at::kFloat).device(at::kMeta));
  const auto meta = [](const at::Tensor& t) { return t.defined() ? t.to(at::kMeta) : t; };
  UnitState state{.x = meta(g.x), .timesteps = meta(g.timesteps), .given = meta(g.class_labels)};
  ImageSize size{g.x.size(2), g.x.size(3)};
  for (const auto& unit : unet.units()) {
    state = unit->forward(std::move(state), {{}, whole_image()});
    EXPECT_GT(unit->operations(size).all, 0.0) << unit->name();
    EXPECT_EQ(size.height, state.x.size(2)) << unit->name();
    EXPECT_EQ(size.width, state.x.size(3)) << unit->name();
  }
}

INSTANTIATE_TEST_SUITE_P(Files, SizesOfUnits, testing::ValuesIn(golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace ddpm::nn::test
