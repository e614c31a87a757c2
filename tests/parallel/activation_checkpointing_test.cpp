// Activation checkpointing of whole models keeps the bits, needs less memory, and works when parameters are released in
// between.
#include "parallel/activation_checkpointing.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "nn/golden_case.h"
#include "nn/ops/as_on_cuda.h"
#include "parallel/allocation_peak.h"

namespace ddpm::parallel {
namespace {

using nn::test::GoldenCase;

std::filesystem::path golden_folder() { return std::filesystem::path(DDPM_TEST_DATA).parent_path() / "nn" / "golden"; }

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A golden case's model with dropout.
struct Model {
  Model(const std::string& name, at::ScalarType dtype)
      : golden(nn::test::read_golden(golden_folder() / (name + ".safetensors"))), unet(with_dropout(golden)) {
    bind_weights(unet.parameters(), golden, dtype);
  }

  static nn::UNet2DConfig with_dropout(const GoldenCase& golden) {
    nn::UNet2DConfig c = nn::test::config_from_json(golden.config);
    c.dropout = 0.2;
    return c;
  }

  [[nodiscard]] at::Tensor loss(nn::UnitExecutor& executor) const {
    const at::Tensor y = unet.forward(golden.x, golden.timesteps, golden.class_labels,
                                      {.seed = 3, .step = 5, .training = true}, nn::whole_image(), executor);
    return (y - golden.target).square().mean();
  }

  /// The gradients of one pass by the parameters' names, and the loss as "loss".
  std::map<std::string, at::Tensor> gradients(nn::UnitExecutor& executor) {
    std::map<std::string, at::Tensor> out;
    const at::Tensor value = loss(executor);
    value.backward();
    out["loss"] = value.detach();
    for (const nn::Parameter* p : unet.parameters()) {
      if (p->role == base::ParameterRole::trained) out[p->name] = std::exchange(p->value.mutable_grad(), at::Tensor());
    }
    return out;
  }

  GoldenCase golden;
  nn::UNet2D unet;
};

void expect_same_bits(const std::map<std::string, at::Tensor>& seen, const std::map<std::string, at::Tensor>& wanted) {
  ASSERT_EQ(seen.size(), wanted.size());
  for (const auto& [name, gradient] : wanted) {
    ASSERT_TRUE(seen.at(name).defined()) << name;
    EXPECT_TRUE(at::equal(seen.at(name), gradient)) << name;
  }
}

class Checkpointed : public testing::TestWithParam<std::tuple<std::string, at::ScalarType>> {};

void expect_bits_kept(Model& model) {
  ActivationCheckpointer none(ActivationCheckpointing::none);
  const auto wanted = model.gradients(none);
  for (const auto what : {ActivationCheckpointing::blocks, ActivationCheckpointing::attention}) {
    ActivationCheckpointer checkpointer(what);
    expect_same_bits(model.gradients(checkpointer), wanted);
  }
}

TEST_P(Checkpointed, GradientsHaveTheSameBits) {
  Model model(std::get<0>(GetParam()), std::get<1>(GetParam()));
  expect_bits_kept(model);
  const nn::AsOnCuda as_on_cuda;
  expect_bits_kept(model);
}

INSTANTIATE_TEST_SUITE_P(Models, Checkpointed,
                         testing::Combine(testing::ValuesIn(golden_names()),
                                          testing::Values(at::kFloat, at::kBFloat16)),
                         [](const auto& c) {
                           return std::get<0>(c.param) + "_" + c10::toString(std::get<1>(c.param));
                         });

/// Takes a unit's parameters away after its forward, and brings them back when the gradient of its output is there:
/// what sharding them over ranks does.
class Removing : public nn::UnitExecutor {
 public:
  using UnitExecutor::UnitExecutor;

  nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                    const nn::ForwardContext& context) override {
    const std::size_t tensors_before = state.temb.defined() ? 1 : 0;
    state = run_inner(unit, index, std::move(state), context);
    const auto away = std::make_shared<std::vector<at::Tensor>>();
    for (const nn::Parameter* p : unit.parameters()) {
      away->push_back(p->value.detach().clone());
      p->value.variable_data().fill_(std::numeric_limits<double>::quiet_NaN());
    }
    const auto back = [away, &unit](const at::Tensor& /*gradient*/) {
      for (std::size_t i = 0; i < away->size(); ++i) unit.parameters()[i]->value.variable_data().copy_((*away)[i]);
    };
    state.x.register_hook(back);
    if (tensors_before == 0) state.temb.register_hook(back);
    return state;
  }
};

TEST(ActivationCheckpointer, ReadsParametersAnewAfterTheHookOfTheUnitsOutput) {
  for (const std::string name : {"attention", "class_table", "resnet_resampling"}) {
    Model model(name, at::kFloat);
    nn::UnitExecutor plain;
    const auto wanted = model.gradients(plain);
    for (const auto what :
         {ActivationCheckpointing::none, ActivationCheckpointing::blocks, ActivationCheckpointing::attention}) {
      ActivationCheckpointer checkpointer(what);
      Removing removing(&checkpointer);
      expect_same_bits(model.gradients(removing), wanted);
    }
  }
}

class CountCalls : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit CountCalls(int& calls) : calls_(calls) {}
  void operator()(const at::Tensor& /*parameter*/) override { ++calls_; }

 private:
  int& calls_;
};

TEST(ActivationCheckpointer, EachParametersHookIsCalledOnce) {
  Model model("attention", at::kFloat);
  ActivationCheckpointer checkpointer(ActivationCheckpointing::blocks);
  std::vector<int> calls(model.unet.parameters().size(), 0);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(model.unet.parameters()[i]->value,
                                                   std::make_unique<CountCalls>(calls[i]));
  }
  model.loss(checkpointer).backward();
  EXPECT_EQ(calls, std::vector<int>(calls.size(), 1));
}

TEST(ActivationCheckpointer, LowersThePeakOfMemory) {
  nn::UNet2DConfig c;
  c.block_out_channels = {32, 64};
  c.down_block_types = {"DownBlock2D", "AttnDownBlock2D"};
  c.up_block_types = {"AttnUpBlock2D", "UpBlock2D"};
  const nn::UNet2D unet(c);
  allocate(unet.parameters(), at::kFloat);
  initialize(unet.parameters(), 0);
  for (const nn::Parameter* p : unet.parameters()) p->value.set_requires_grad(true);
  const at::Tensor x = at::zeros({4, 3, 32, 32});
  const at::Tensor t = at::zeros({4}, at::kLong);
  std::map<ActivationCheckpointing, int64_t> peak;
  for (const auto what :
       {ActivationCheckpointing::none, ActivationCheckpointing::blocks, ActivationCheckpointing::attention}) {
    ActivationCheckpointer checkpointer(what);
    test::AllocationPeak measured;
    unet.forward(x, t, {}, {.training = true}, nn::whole_image(), checkpointer).square().sum().backward();
    peak[what] = measured.bytes();
    for (const nn::Parameter* p : unet.parameters()) p->value.mutable_grad().reset();
    std::printf("activation checkpointing %d: peak %.1f MB\n", static_cast<int>(what),
                static_cast<double>(peak[what]) / 1e6);
  }
  EXPECT_LT(static_cast<double>(peak[ActivationCheckpointing::blocks]),
            0.6 * static_cast<double>(peak[ActivationCheckpointing::none]));
  EXPECT_LT(static_cast<double>(peak[ActivationCheckpointing::attention]),
            0.95 * static_cast<double>(peak[ActivationCheckpointing::none]));
}

}  // namespace
}  // namespace ddpm::parallel
