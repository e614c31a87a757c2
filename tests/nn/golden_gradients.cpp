#include "nn/golden_gradients.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace ddpm::nn::test {

void expect_gradients(const UNet2D& unet, const GoldenCase& golden) {
  // relu's derivative jumps at 0: of 1,000 models one or two have a unit that float32 and float64 put on different
  // sides. Then gradients of diffusers itself are up to 5e-2 apart.
  const bool kinks = unet.config().act_fn == ActivationName::relu;
  double total = 0.0;
  for (const auto& [name, p] : golden.parameters) total += p.gradient.square().sum().item<double>();
  for (const Parameter* p : unet.parameters()) {
    if (p->role != base::ParameterRole::trained) continue;
    const at::Tensor& wanted = golden.parameters.at(p->name).gradient;
    // A gradient that is zero in truth (to_k.bias) comes out as noise, here as in float32 diffusers: 1e-7 of the total.
    const double least = kinks ? 1e-2 : golden.exact ? 1e-3 : 1e-4;
    const double scale = std::max(wanted.norm().item<double>(), least * std::sqrt(total));
    ASSERT_TRUE(p->value.grad().defined()) << p->name;
    const double tolerance = kinks ? std::max(1e-2, 2 * golden.float32_error) : golden.exact ? 1e-4 : 1e-3;
    const at::Tensor away = p->value.grad().cpu() - part_of(wanted, p->split);
    EXPECT_LT(away.norm().item<double>(), tolerance * scale) << p->name;
  }
}

}  // namespace ddpm::nn::test
