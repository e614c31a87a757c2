#include "interop/own_export.h"

#include <gtest/gtest.h>

#include "interop/network_writer.h"
#include "interop/peft_adapter.h"
#include "interop/tiny_model.h"

namespace ddpm::interop {
namespace {

class OwnExport : public testing::Test {
 protected:
  [[nodiscard]] bool is_own_model() const { return is_own_model_folder(*files_, place_); }
  [[nodiscard]] bool is_own_adapter() const { return is_own_adapter_folder(*files_, place_); }

  test::TemporaryFolder folder_;
  base::Path place_ = folder_.path() / "place";
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
  nn::UNet2DConfig config_ = tiny_config();
  diffusion::SchedulerConfig scheduler_;
  base::Json normalization_;
  ModelCard card_;
};

TEST_F(OwnExport, IsEveryModelFolder) {
  TinyModel(config_).write(place_);
  EXPECT_TRUE(is_own_model());
  EXPECT_FALSE(is_own_adapter());

  // All that a folder can hold: parameters need field_unet.py.
  config_.num_parameters = 2;
  card_.class_names = {"cat", "dog"};
  diffusion::SchedulerConfig regression;
  regression.formulation = diffusion::Formulation::regression;
  const std::vector<NamedTensor> weights = TinyModel(config_).weights();
  const WrittenModel mean{config_, regression, weights, normalization_, card_};
  write_diffusers_model(*files_, place_, {config_, scheduler_, weights, normalization_, card_, &mean});
  EXPECT_TRUE(files_->exists(place_ / "field_unet.py"));
  EXPECT_TRUE(is_own_model());
  EXPECT_TRUE(is_own_model_folder(*files_, place_ / "mean_model"));

  std::filesystem::create_directory(place_ / "__pycache__");
  EXPECT_TRUE(is_own_model());
  test::write_text(place_ / "thesis.txt", "mine");
  EXPECT_FALSE(is_own_model());
}

TEST_F(OwnExport, IsAModelFolderOnlyWithWhatOthersDoNotWrite) {
  TinyModel(config_).write(place_);
  std::filesystem::remove(place_ / "normalization.json");
  EXPECT_FALSE(is_own_model());
}

TEST_F(OwnExport, IsAFolderOfAdaptersWhoseCardSaysSo) {
  config_.lora.rank = 2;
  const TinyModel model(config_);
  std::vector<NamedTensor> adapters;
  for (const nn::Parameter* parameter : model.unet.parameters()) {
    if (parameter->role == base::ParameterRole::trained) adapters.emplace_back(parameter->name, parameter->value);
  }
  write_peft_adapter(*files_, place_,
                     {model.unet, adapters, "base", diffusion::Formulation::ddpm, normalization_, card_});
  EXPECT_TRUE(is_own_adapter());
  EXPECT_FALSE(is_own_model());
  test::write_text(place_ / "README.md", "# Adapters of another program\n");
  EXPECT_FALSE(is_own_adapter());
}

TEST_F(OwnExport, IsANetworkOfEachFormat) {
  const TinyModel model(config_);
  write_torchscript(*files_, place_, {model.unet});
  EXPECT_TRUE(is_own_torchscript(place_));
  EXPECT_FALSE(is_own_onnx(place_));
  const base::Path onnx = folder_.path() / "net.onnx";
  write_onnx(*files_, onnx, {model.unet});
  EXPECT_TRUE(is_own_onnx(onnx));
  EXPECT_FALSE(is_own_torchscript(onnx));
  EXPECT_FALSE(is_own_onnx(folder_.path()));
}

}  // namespace
}  // namespace ddpm::interop
