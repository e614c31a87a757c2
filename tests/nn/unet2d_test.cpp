// UNet2D as a whole: sizes of known models, its units, memory orders, reduced precision, the meta device.
#include "nn/unet2d.h"

#include <cmath>
#include <map>
#include <tuple>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/pulse.h"
#include "nn/golden_case.h"
#include "nn/ops/group_norm_silu.h"
#include "nn/train_unconditional.h"
#include "nn/unet2d_units.h"

namespace ddpm::nn::test {
namespace {

using testing::ElementsAre;

GoldenCase golden(const std::string& name) {
  return read_golden(std::filesystem::path(DDPM_TEST_DATA) / "golden" / (name + ".safetensors"));
}

at::Tensor predict(const UNet2D& unet, const GoldenCase& g, const at::Tensor& x) {
  return unet.forward(x, g.timesteps, g.class_labels, {});
}

TEST(UNet2D, HasAsManyParametersAsDiffusers) {
  EXPECT_EQ(UNet2D(UNet2DConfig()).parameter_count(), 274'056'163);
  EXPECT_EQ(UNet2D(train_unconditional()).parameter_count(), 113'673'219);
}

/// Notes, when attention asks for the keys of all bands, whether a tensor is still in memory.
class Watch : public Partition {
 public:
  explicit Watch(const at::Tensor& t) : storage_(t.storage().getWeakStorageImpl()) {}
  [[nodiscard]] at::Tensor gather(const at::Tensor& x) const override {
    gone = storage_.expired();
    return x;
  }
  mutable bool gone = false;

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
};

TEST(UNet2D, AttentionBeginsWhenTheInputOfItsUnitIsGone) {
  const at::NoGradGuard no_grad;
  for (const int64_t channels : {8, 16}) {  // of the input: with 8 it is the residual itself
    const ResnetOptions resnet{.in = channels, .out = 8, .time_embedding_dim = 4, .norm = {.groups = 4}};
    const AttentionOptions attention{.channels = 8, .head_dim = 4, .norm = GroupNormOptions{.groups = 4}};
    const ResnetUnit unit("unit", resnet, "attention", attention, SkipUse::none);
    allocate(unit.parameters(), at::kFloat);
    initialize(unit.parameters(), 0);
    for (const bool recompute : {false, true}) {
      at::Tensor x = at::randn({1, channels, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
      const Watch watch(x);
      const ForwardContext context{.random = {}, .partition = watch, .recompute_attention = recompute};
      (void)unit.forward({.x = std::move(x), .temb = at::randn({1, 4})}, context);
      EXPECT_TRUE(watch.gone) << channels << " channels, recompute " << recompute;
    }
  }
}

TEST(UNet2D, RunsOnTheMetaDevice) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const UNet2D unet(train_unconditional());
    const at::TensorOptions meta = at::TensorOptions(dtype).device(at::kMeta);
    allocate(unet.parameters(), meta);
    initialize(unet.parameters(), 0);
    const at::Tensor y =
        unet.forward(at::empty({4, 3, 64, 96}, meta), at::empty({4}, meta.dtype(at::kLong)), {}, {.training = true});
    EXPECT_EQ(y.sizes(), (std::vector<int64_t>{4, 3, 64, 96}));
    EXPECT_EQ(y.scalar_type(), at::kFloat);
    EXPECT_TRUE(y.is_meta());
  }
}

TEST(UNet2D, EachUnitIsASignOfProgress) {
  // Otherwise one call of a large model on a slow machine would look like a hang.
  const UNet2D unet(train_unconditional());
  const at::TensorOptions meta = at::TensorOptions(at::kFloat).device(at::kMeta);
  allocate(unet.parameters(), meta);
  initialize(unet.parameters(), 0);
  const base::Pulse progress;
  (void)unet.forward(at::empty({1, 3, 64, 64}, meta), at::empty({1}, meta.dtype(at::kLong)), {}, {});
  EXPECT_EQ(progress.count(), std::ssize(unet.units()));
  EXPECT_GT(progress.count(), 20);
}

class MetaUNet2D : public testing::TestWithParam<std::filesystem::path> {};

// Some operations have no meta kernel in ATen and are replaced by their shapes: every one of them is met here.
TEST_P(MetaUNet2D, HasTheSameShapesAsOnTheCpu) {
  const at::NoGradGuard no_grad;
  const GoldenCase g = read_golden(GetParam());
  UNet2DConfig c = config_from_json(g.config);
  c.dropout = 0.1;
  const UNet2D unet(c);
  const auto shapes = [&](at::Device device) {
    allocate(unet.parameters(), at::TensorOptions(at::kFloat).device(device));
    const auto on = [&](const at::Tensor& t) { return t.defined() ? t.to(device) : t; };
    UnitState state{.x = on(g.x), .timesteps = on(g.timesteps), .given = on(g.class_labels)};
    const Partition whole;
    std::vector<std::vector<int64_t>> seen;
    for (const auto& unit : unet.units()) {
      state = unit->forward(std::move(state), {{.training = true}, whole});
      seen.push_back(state.x.sizes().vec());
    }
    return seen;
  };
  EXPECT_EQ(shapes(at::kMeta), shapes(at::kCPU));
}

INSTANTIATE_TEST_SUITE_P(Files, MetaUNet2D, testing::ValuesIn(golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

TEST(UNet2D, ListsItsUnitsInExecutionOrder) {
  const UNet2D unet(config_from_json(golden("scale_shift").config));
  std::vector<std::string> names;
  for (const auto& unit : unet.units()) names.push_back(unit->name());
  EXPECT_THAT(names, ElementsAre("conv_in", "down_blocks.0.resnets.0", "down_blocks.0.downsamplers.0",
                                 "down_blocks.1.resnets.0", "mid_block.resnets.0", "mid_block.resnets.1",
                                 "up_blocks.0.resnets.0", "up_blocks.0.resnets.1", "up_blocks.0.upsamplers.0",
                                 "up_blocks.1.resnets.0", "up_blocks.1.resnets.1", "conv_out"));
  for (std::size_t u = 0; u < unet.units().size(); ++u) {
    for (const Parameter* p : unet.units()[u]->parameters()) EXPECT_EQ(p->unit, static_cast<int>(u)) << p->name;
  }
}

TEST(UNet2D, TensorParallelismCutsEachBlockOnceByOutputsAndOnceByInputs) {
  const UNet2D unet(config_from_json(golden("defaults").config));
  std::map<std::string, int> cut;
  for (const Parameter* p : unet.parameters()) cut[p->name] = p->split.dim;
  const std::string resnet = "down_blocks.1.resnets.0.";
  const std::string attention = "down_blocks.1.attentions.0.";
  for (const std::string& name : {resnet + "conv1", resnet + "time_emb_proj", resnet + "norm2", attention + "to_q"}) {
    EXPECT_EQ(cut.at(name + ".weight"), 0) << name;
    EXPECT_EQ(cut.at(name + ".bias"), 0) << name;
  }
  for (const std::string& name : {resnet + "conv2", attention + "to_out.0"}) {
    EXPECT_EQ(cut.at(name + ".weight"), 1) << name;
    EXPECT_EQ(cut.at(name + ".bias"), -1) << name;
  }
  EXPECT_EQ(cut.at(resnet + "norm1.weight"), -1);
  EXPECT_EQ(cut.at("conv_in.weight"), -1);
}

TEST(UNet2D, DoesNotDependOnTheMemoryOrderOfItsInput) {
  const at::NoGradGuard no_grad;
  const GoldenCase g = golden("attention");
  const UNet2D unet(config_from_json(g.config));
  bind_weights(unet.parameters(), g, at::kFloat);
  const at::Tensor rows = predict(unet, g, g.x);
  EXPECT_TRUE(at::equal(rows, predict(unet, g, g.x.contiguous(at::MemoryFormat::ChannelsLast))));
  EXPECT_TRUE(at::equal(rows, predict(unet, g, g.x.transpose(2, 3).contiguous().transpose(2, 3))));
}

TEST(UNet2D, KeepsActivationsChannelsLastAndInTheDtypeOfTheParameters) {
  const at::NoGradGuard no_grad;
  const GoldenCase g = golden("attention");
  const UNet2D unet(config_from_json(g.config));
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    bind_weights(unet.parameters(), g, dtype);
    const Partition whole;
    UnitState state{.x = g.x, .timesteps = g.timesteps, .given = g.class_labels};
    for (const auto& unit : unet.units().first(unet.units().size() - 1)) {
      state = unit->forward(std::move(state), {{}, whole});
      EXPECT_TRUE(state.x.is_contiguous(at::MemoryFormat::ChannelsLast)) << unit->name();
      EXPECT_EQ(state.x.scalar_type(), dtype) << unit->name();
      EXPECT_EQ(state.temb.scalar_type(), dtype) << unit->name();
    }
    EXPECT_TRUE(state.skips.empty());
  }
}

class ReducedPrecision : public testing::TestWithParam<std::tuple<std::string, at::ScalarType>> {};

TEST_P(ReducedPrecision, StaysNearFloat32) {
  const auto& [name, dtype] = GetParam();
  const double epsilon = dtype == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
  const GoldenCase g = golden(name);
  const UNet2D unet(config_from_json(g.config));
  bind_weights(unet.parameters(), g, dtype);
  const at::Tensor y = predict(unet, g, g.x);
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_LT(relative_distance(y.detach(), g.output), 10 * epsilon);

  at::mse_loss(y, g.target).backward();
  double error = 0.0;
  double total = 0.0;
  for (const Parameter* p : unet.parameters()) {
    if (p->role != base::ParameterRole::trained) continue;
    const at::Tensor& wanted = g.parameters.at(p->name).gradient;
    EXPECT_EQ(p->value.grad().scalar_type(), dtype);
    error += (p->value.grad().to(at::kFloat) - wanted).square().sum().item<double>();
    total += wanted.square().sum().item<double>();
  }
  EXPECT_LT(std::sqrt(error / total), 20 * epsilon);
}

INSTANTIATE_TEST_SUITE_P(Cases, ReducedPrecision,
                         testing::Combine(testing::Values("scale_shift", "fourier", "class_table"),
                                          testing::Values(at::kBFloat16, at::kHalf)),
                         [](const auto& c) {
                           return std::get<0>(c.param) + "_" + c10::toString(std::get<1>(c.param));
                         });

TEST(UNet2D, NormalisesReducedPrecisionWithFloat32Statistics) {
  // A mean of 500 with a spread of 1: statistics in bfloat16 could not tell the values from their mean.
  const at::Tensor x = (at::arange(64, at::kFloat).remainder(2) * 4 + 500).view({1, 1, 8, 8}).to(at::kBFloat16);
  const at::Tensor y =
      group_norm_silu(x, at::ones({1}, at::kBFloat16), at::zeros({1}, at::kBFloat16), {.groups = 1}, {}, Partition());
  EXPECT_NEAR(y.min().item<double>(), -1.0, 0.01);
  EXPECT_NEAR(y.max().item<double>(), 1.0, 0.01);
}

TEST(UNet2D, RefusesInputsThatDoNotFit) {
  const GoldenCase g = golden("class_table");
  const UNet2D unet(config_from_json(g.config));
  bind_weights(unet.parameters(), g, at::kFloat);
  const auto forward = [&](const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels) {
    return unet.forward(x, t, labels, {});
  };
  EXPECT_THROW(forward(g.x.narrow(1, 0, 2), g.timesteps, g.class_labels), base::InternalError);
  EXPECT_THROW(forward(g.x.narrow(2, 0, 7), g.timesteps, g.class_labels), base::InternalError);
  EXPECT_THROW(forward(g.x, g.timesteps.narrow(0, 0, 2), g.class_labels), base::InternalError);
  EXPECT_THROW(forward(g.x, g.timesteps, {}), base::InternalError);
  EXPECT_THROW(forward(g.x, g.timesteps, g.class_labels.narrow(0, 0, 2)), base::InternalError);
}

}  // namespace
}  // namespace ddpm::nn::test
