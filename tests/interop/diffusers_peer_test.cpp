// Models pass between diffusers and us in both directions, and predict the same on the same weights.
#include <cstdlib>
#include <map>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "base/random.h"
#include "checkpoint/safetensors.h"
#include "interop/network_case.h"
#include "interop/tiny_model.h"
#include "support/test_stream.h"

namespace ddpm::interop {
namespace {

/// Runs diffusers_peer.py with a verb on a folder; true when it ends well.
bool peer(const std::string& verb, const base::Path& folder) {
  const std::string command =
      std::string(DDPM_PEERS_PYTHON) + " " + DDPM_TEST_DATA + "/diffusers_peer.py " + verb + " " + folder.string();
  return std::system(command.c_str()) == 0;
}

/// One model per kind of layer that diffusers' UNet2DModel has.
std::map<std::string, nn::UNet2DConfig> models() {
  nn::UNet2DConfig plain = tiny_config();
  nn::UNet2DConfig classes = plain;
  classes.num_class_embeds = 4;
  classes.sample_size = {16, 32};
  nn::UNet2DConfig resnet = plain;
  resnet.downsample_type = resnet.upsample_type = nn::ResamplerName::resnet;
  resnet.resnet_time_scale_shift = nn::TimeScaleShift::scale_shift;
  resnet.time_embedding_type = nn::TimeEmbedding::learned;
  resnet.num_train_timesteps = 1000;
  resnet.mid_block_scale_factor = 1.5;
  nn::UNet2DConfig sparse = plain;
  sparse.mid_block_type = "";
  sparse.attention_head_dim = 0;
  sparse.freq_shift = 1;
  sparse.flip_sin_to_cos = false;
  sparse.downsample_padding = 0;
  nn::UNet2DConfig fields = tiny_config();  // image 3, condition 2, static 1, positions 4
  fields.in_channels = 10;
  nn::UNet2DConfig parameters = fields;
  parameters.num_parameters = 5;
  nn::UNet2DConfig torus = classes;
  torus.padding = {"periodic", "periodic"};
  nn::UNet2DConfig cylinder = sparse;
  cylinder.padding = {"zeros", "periodic"};
  nn::UNet2DConfig volume = parameters;
  volume.dimensions = 3;
  volume.sample_size = {4, 8, 12};
  nn::UNet2DConfig periodic_volume = resnet;
  periodic_volume.dimensions = 3;
  periodic_volume.downsample_padding = 0;
  periodic_volume.padding = {"periodic", "zeros", "periodic"};
  periodic_volume.block_out_channels = {16, 32, 32};
  periodic_volume.down_block_types = {"DownBlock2D", "AttnDownBlock2D", "DownBlock2D"};
  periodic_volume.up_block_types = {"UpBlock2D", "AttnUpBlock2D", "UpBlock2D"};
  periodic_volume.sample_size = {8, 4, 12};
  return {{"classes", classes}, {"cylinder", cylinder},
          {"fields", fields},   {"parameters", parameters},
          {"plain", plain},     {"resnet", resnet},
          {"sparse", sparse},   {"torus", torus},
          {"volume", volume},   {"periodic volume", periodic_volume}};
}

struct Inputs {
  at::Tensor x;
  at::Tensor timesteps;
  at::Tensor labels = {};      ///< undefined without classes
  at::Tensor parameters = {};  ///< undefined without parameters
};

Inputs inputs_for(const nn::UNet2DConfig& config) {
  Inputs inputs;
  const nn::ImageSize size = nn::image_size(config);
  inputs.x = at::empty({2, config.in_channels, size.rows(), size.width}, at::kFloat);
  base::RandomSequence(1, test::kStream, 0, 0)
      .fill_normal({inputs.x.mutable_data_ptr<float>(), static_cast<std::size_t>(inputs.x.numel())});
  inputs.timesteps = at::tensor({3, 977}, at::kLong);
  if (config.num_class_embeds) inputs.labels = at::tensor({3, 1}, at::kLong);
  if (config.num_parameters) inputs.parameters = at::linspace(-1, 2, 2 * *config.num_parameters).view({2, -1});
  return inputs;
}

class DiffusersPeer : public testing::Test {
 protected:
  static at::Tensor predict(const nn::UNet2D& unet, const Inputs& inputs) {
    const at::NoGradGuard no_grad;
    return unet.forward(inputs.x, inputs.timesteps, {inputs.labels, inputs.parameters}, {}).contiguous();
  }
  void write_case(const base::Path& path, const Inputs& inputs, const at::Tensor& output) const {
    std::vector<checkpoint::SafetensorsTensor> tensors;
    const auto add = [&](const char* name, base::DType dtype, const at::Tensor& value) {
      tensors.push_back(
          {name, dtype, value.sizes().vec(), {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()}});
    };
    add("x", base::DType::f32, inputs.x);
    add("timesteps", base::DType::i64, inputs.timesteps);
    if (inputs.labels.defined()) add("labels", base::DType::i64, inputs.labels);
    if (inputs.parameters.defined()) add("parameters", base::DType::f32, inputs.parameters);
    add("output", base::DType::f32, output);
    const auto file = files_->create_exclusive(path);
    checkpoint::write_safetensors(*file, tensors);
    file->close();
  }
  static at::Tensor read(const checkpoint::SafetensorsFile& file, const char* name) {
    const checkpoint::SafetensorsEntry* entry = file.header().find(name);
    if (entry == nullptr) return {};
    at::Tensor value = at::empty(entry->shape, entry->dtype == base::DType::i64 ? at::kLong : at::kFloat);
    file.read(*entry, {static_cast<std::byte*>(value.mutable_data_ptr()), value.nbytes()});
    return value;
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
};

TEST_F(DiffusersPeer, OpensWhatWeWriteAndPredictsTheSame) {
  diffusion::DiffusionConfig diffusion;
  diffusion.scheduler.beta_schedule = diffusion::BetaSchedule::squaredcos_cap_v2;
  diffusion.scheduler.prediction_type = diffusion::PredictionType::v_prediction;
  for (const auto& [name, config] : models()) {
    TinyModel tiny(config);
    if (config.num_class_embeds) tiny.class_names = {"cat", "dog", "newt", "zebra"};
    tiny.write(folder_.path() / name, diffusion);
    const Inputs inputs = inputs_for(config);
    write_case(folder_.path() / (name + ".safetensors"), inputs, predict(tiny.unet, inputs));
  }
  EXPECT_TRUE(peer("check", folder_.path()));
}

TEST_F(DiffusersPeer, NetworksRunWithoutUs) {
  for (const auto& [name, config] : models()) {
    const TinyModel tiny(config);
    const Inputs inputs = inputs_for(config);
    write_network_case(*files_, folder_.path() / name, tiny.unet, inputs.x, inputs.timesteps,
                       {inputs.labels, inputs.parameters});
  }
  const std::string command = fmt::format("{} {}/networks_peer.py {} {}", DDPM_PEERS_PYTHON, DDPM_TEST_DATA,
                                          folder_.path().string(), models().size());
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(DiffusersPeer, WritesWhatWeOpenAndPredictTheSame) {
  ASSERT_TRUE(peer("write", folder_.path()));
  int opened = 0;
  for (const std::string& name : files_->list(folder_.path())) {
    const base::Path folder = folder_.path() / name;
    if (!is_model_folder(folder)) continue;
    TinyModel tiny(read_model_config(folder));
    const UNetWeights weights(folder, tiny.shapes());
    for (nn::Parameter* parameter : tiny.unet.parameters()) parameter->value.copy_(weights.read(parameter->name));
    const checkpoint::SafetensorsFile known(folder_.path() / (name + ".safetensors"));
    const Inputs inputs{read(known, "x"), read(known, "timesteps"), read(known, "labels")};
    const at::Tensor wanted = read(known, "output");
    const double error = ((predict(tiny.unet, inputs) - wanted).norm() / wanted.norm()).item<double>();
    EXPECT_LT(error, 2e-5) << name;
    EXPECT_EQ(read_scheduler(folder).value().class_name, "DDIMScheduler") << name;
    ++opened;
  }
  EXPECT_EQ(opened, 3);
}

}  // namespace
}  // namespace ddpm::interop
