#include "nn/golden_gradients.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace ddpm::nn::test {

void expect_gradients(const UNet2D& unet, const GoldenCase& golden) {
  double total = 0.0;
  for (const auto& [name, p] : golden.parameters) total += p.gradient.square().sum().item<double>();
  for (const Parameter* p : unet.parameters()) {
    if (p->role != base::ParameterRole::trained) continue;
    const at::Tensor& wanted = golden.parameters.at(p->name).gradient;
    // A gradient that is zero in truth (to_k.bias) comes out as noise, here as in float32 diffusers: 1e-7 of the total.
    const double least = golden.exact ? 1e-3 : 1e-4;
    const double scale = std::max(wanted.norm().item<double>(), least * std::sqrt(total));
    ASSERT_TRUE(p->value.grad().defined()) << p->name;
    const double tolerance = golden.exact ? 1e-4 : 1e-3;
    const auto away = [&](const at::Tensor& one) {
      return (p->value.grad().cpu() - part_of(one, p->split)).norm().item<double>();
    };
    // relu's derivative jumps at 0: a few of 1,000 models have a unit that float32 may put on either side.
    double nearest = away(wanted);
    for (const at::Tensor& other : golden.parameters.at(p->name).beyond) nearest = std::min(nearest, away(other));
    EXPECT_LT(nearest, tolerance * scale) << p->name;
  }
}

}  // namespace ddpm::nn::test
