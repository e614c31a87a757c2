#include "nn/golden_gradients.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace ddpm::nn::test {

void expect_gradients(const UNet2D& unet, const GoldenCase& golden) {
  // relu's derivative jumps at 0: a few of 1,000 models have a unit that float32 may put on either side. Gradients of
  // diffusers itself are up to 5e-2 apart then.
  const bool kinks = golden.kink_error > 0.0;
  double total = 0.0;
  for (const auto& [name, p] : golden.parameters) total += p.gradient.square().sum().item<double>();
  for (const Parameter* p : unet.parameters()) {
    if (p->role != base::ParameterRole::trained) continue;
    const at::Tensor& wanted = golden.parameters.at(p->name).gradient;
    // A gradient that is zero in truth (to_k.bias) comes out as noise, here as in float32 diffusers: 1e-7 of the total.
    const double least = kinks ? 1e-2 : golden.exact ? 1e-3 : 1e-4;
    const double scale = std::max(wanted.norm().item<double>(), least * std::sqrt(total));
    ASSERT_TRUE(p->value.grad().defined()) << p->name;
    const double tolerance = (golden.exact ? 1e-4 : 1e-3) + 2.0 * golden.kink_error;
    const at::Tensor away = p->value.grad().cpu() - part_of(wanted, p->split);
    EXPECT_LT(away.norm().item<double>(), tolerance * scale) << p->name;
  }
}

}  // namespace ddpm::nn::test
