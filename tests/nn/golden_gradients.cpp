#include "nn/golden_gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace ddpm::nn::test {
namespace {

// A parameter's gradient by one of the choices that the golden data allow; 0 is diffusers' own.
const at::Tensor& chosen(const GoldenParameter& p, std::size_t choice) {
  return choice == 0 ? p.gradient : p.beyond[choice - 1];
}

double away(const Parameter& p, const at::Tensor& wanted) {
  return (p.value.grad().cpu() - part_of(wanted, p.split)).norm().item<double>();
}

// relu's derivative jumps at 0: of 1,000 models a few have units that float32 may put on either side. The choice of
// sides that this model's gradients are nearest to, all together.
std::size_t nearest_choice(const std::vector<const Parameter*>& trained, const GoldenCase& golden) {
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t choice = 0; choice <= golden.parameters.begin()->second.beyond.size(); ++choice) {
    double sum = 0.0;
    for (const Parameter* p : trained) sum += std::pow(away(*p, chosen(golden.parameters.at(p->name), choice)), 2);
    if (sum < least) best = choice;
    least = std::min(least, sum);
  }
  return best;
}

}  // namespace

void expect_gradients(const UNet2D& unet, const GoldenCase& golden) {
  double total = 0.0;
  for (const auto& [name, p] : golden.parameters) total += p.gradient.square().sum().item<double>();
  std::vector<const Parameter*> trained;
  for (const Parameter* p : unet.parameters()) {
    if (p->role != base::ParameterRole::trained) continue;
    ASSERT_TRUE(p->value.grad().defined()) << p->name;
    trained.push_back(p);
  }
  const std::size_t choice = nearest_choice(trained, golden);
  for (const Parameter* p : trained) {
    const at::Tensor& wanted = chosen(golden.parameters.at(p->name), choice);
    // A gradient that is zero in truth (to_k.bias) comes out as noise, here as in float32 diffusers: 1e-7 of the total.
    const double least = golden.exact ? 1e-3 : 1e-4;
    const double scale = std::max(wanted.norm().item<double>(), least * std::sqrt(total));
    const double tolerance = golden.exact ? 1e-4 : 1e-3;
    EXPECT_LT(away(*p, wanted), tolerance * scale) << p->name;
  }
}

}  // namespace ddpm::nn::test
