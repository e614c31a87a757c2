#include "diffusion/betas.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "base/check.h"
#include "base/error.h"

namespace ddpm::diffusion {
namespace {

// Tables are computed here, operation by operation as diffusers does, in float32 where it does. LibTorch's square root
// is MKL's, whose last bit differs between processors, and 1 - ᾱ of the first steps makes thousands of such bits.

/// Number `i` of `count` values from `first` to `last`, counted from the nearer end; one alone is `first`. Products are
/// fused, as PyTorch's are on all processors that can.
float linspace(double first, double last, int64_t count, int64_t i) {
  const auto begin = static_cast<float>(first);
  const auto end = static_cast<float>(last);
  if (count == 1) return begin;
  const float step = (end - begin) / static_cast<float>(count - 1);
  return i < count / 2 ? std::fma(step, static_cast<float>(i), begin)
                       : std::fma(-step, static_cast<float>(count - 1 - i), end);
}

/// Nichol & Dhariwal, "Improved Denoising Diffusion Probabilistic Models" (2021), eq. 17: ᾱ(t) = cos²((t + s)/(1 + s)
/// · π/2) with s = 0.008, β capped at 0.999. In float64, then rounded.
float squared_cosine_beta(int64_t steps, int64_t i) {
  const auto alpha_bar = [](double t) {
    const double c = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2.0);
    return c * c;
  };
  const auto n = static_cast<double>(steps);
  const double begin = static_cast<double>(i) / n;
  const double end = static_cast<double>(i + 1) / n;
  return static_cast<float>(std::min(1.0 - alpha_bar(end) / alpha_bar(begin), 0.999));
}

/// Lin et al., "Common Diffusion Noise Schedules and Sample Steps Are Flawed" (2023), algorithm 1: √ᾱ is shifted and
/// scaled so that it ends at 0 and begins where it did. Where float32 has lost ᾱ before the last timestep, nothing is
/// left of it afterwards, either.
std::vector<float> rescaled_to_zero_terminal_snr(const std::vector<float>& betas) {
  std::vector<float> root = alphas_cumprod_of(betas);
  for (float& each : root) each = std::sqrt(each);
  const float last = root.back();
  const float scale = root.front() / (root.front() - last);
  std::vector<float> rescaled(betas.size());
  float before = 1.0F;
  for (std::size_t i = 0; i < betas.size(); ++i) {
    const float shifted = (root[i] - last) * scale;
    const float alpha_bar = shifted * shifted;
    rescaled[i] = before == 0.0F ? 1.0F : 1.0F - alpha_bar / before;
    before = alpha_bar;
  }
  return rescaled;
}

}  // namespace

float unscaled_beta(const SchedulerConfig& c, int64_t t) {
  const int64_t n = c.num_train_timesteps;
  DDPM_CHECK(t >= 0 && t < n, "timestep {} of {}", t, n);
  if (!c.trained_betas.empty()) return static_cast<float>(c.trained_betas[static_cast<std::size_t>(t)]);
  switch (c.beta_schedule) {
    case BetaSchedule::linear:
      return linspace(c.beta_start, c.beta_end, n, t);
    case BetaSchedule::scaled_linear: {
      const float root = linspace(std::sqrt(c.beta_start), std::sqrt(c.beta_end), n, t);
      return root * root;
    }
    case BetaSchedule::squaredcos_cap_v2:
      return squared_cosine_beta(n, t);
    case BetaSchedule::sigmoid: {
      const float sigmoid = 1.0F / (1.0F + std::exp(-linspace(-6.0, 6.0, n, t)));
      return sigmoid * static_cast<float>(c.beta_end - c.beta_start) + static_cast<float>(c.beta_start);
    }
  }
  throw base::InternalError("beta schedule {}", static_cast<int>(c.beta_schedule));
}

std::vector<float> betas_of(const SchedulerConfig& c) {
  std::vector<float> betas(static_cast<std::size_t>(c.num_train_timesteps));
  for (std::size_t t = 0; t < betas.size(); ++t) betas[t] = unscaled_beta(c, static_cast<int64_t>(t));
  return c.rescale_betas_zero_snr ? rescaled_to_zero_terminal_snr(betas) : betas;
}

std::vector<float> alphas_cumprod_of(const std::vector<float>& betas) {
  std::vector<float> products(betas.size());
  double product = 1.0;
  for (std::size_t i = 0; i < betas.size(); ++i) products[i] = static_cast<float>(product *= 1.0F - betas[i]);
  return products;
}

}  // namespace ddpm::diffusion
