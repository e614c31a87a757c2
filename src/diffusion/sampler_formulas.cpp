#include "diffusion/sampler_formulas.h"

#include <cmath>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "base/named.h"

namespace ddpm::diffusion {
namespace {

/// To the nearest integer, halves to the even one: numpy's rounding.
int64_t round_half_even(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

/// Timestep `i` of `n`, counted from the highest.
int64_t spaced_timestep(const SchedulerConfig& c, int64_t n, int64_t i) {
  const auto total = static_cast<double>(c.num_train_timesteps);
  const int64_t from_lowest = n - 1 - i;
  if (c.timestep_spacing == TimestepSpacing::leading) return from_lowest * (c.num_train_timesteps / n) + c.steps_offset;
  if (c.timestep_spacing == TimestepSpacing::linspace) {
    if (n == 1) return 0;
    const double step = (total - 1.0) / static_cast<double>(n - 1);
    return i == 0 ? c.num_train_timesteps - 1 : round_half_even(static_cast<double>(from_lowest) * step);
  }
  return round_half_even(falling_number(total, total / static_cast<double>(n), i)) - 1;
}

/// How far the rank of a quantile of `count` values lies from the lowest one. Up to the most values that at::quantile
/// takes it is at::quantile's, which computes in the values' own type.
double rank_of(double ratio, int64_t count, at::ScalarType dtype) {
  constexpr int64_t kMostOfATen = int64_t{1} << 24;
  const int64_t last = count - 1;
  if (dtype == at::kDouble || count > kMostOfATen) return ratio * static_cast<double>(last);
  return static_cast<float>(ratio) * static_cast<float>(last);
}

/// at::quantile along the last axis of x [N, values], for any number of values: [N].
at::Tensor quantile(const at::Tensor& x, double ratio) {
  const at::Tensor sorted = std::get<0>(at::sort(x, 1));
  const double rank = rank_of(ratio, sorted.size(1), x.scalar_type());
  const auto value = [&](double place) { return sorted.select(1, static_cast<int64_t>(place)).contiguous(); };
  const at::Tensor weight = at::full({x.size(0)}, rank - std::floor(rank), x.options());
  const at::Tensor between = at::lerp(value(std::floor(rank)), value(std::ceil(rank)), weight);
  const at::Tensor highest = value(static_cast<double>(sorted.size(1) - 1));  // NaN where there is one
  return at::where(highest.isnan(), highest, between);
}

/// The quantile of the valid values of each row of x [N, values]: [N]; 0 of a row that has none.
at::Tensor quantile_of_valid(const at::Tensor& x, const at::Tensor& valid, double ratio) {
  std::vector<at::Tensor> each;
  each.reserve(static_cast<std::size_t>(x.size(0)));
  for (int64_t row = 0; row < x.size(0); ++row) {
    const at::Tensor values = x[row].masked_select(valid[row]).unsqueeze(0);
    each.push_back(values.numel() == 0 ? at::zeros({1}, x.options()) : quantile(values, ratio));
  }
  return at::cat(each);
}

at::Tensor dynamic_threshold(const SchedulerConfig& c, const at::Tensor& image, const at::Tensor& valid) {
  const at::Tensor flat = image.reshape({image.size(0), -1});
  const at::Tensor quantiles =
      valid.defined()
          ? quantile_of_valid(flat.abs(), valid.expand_as(image).reshape(flat.sizes()), c.dynamic_thresholding_ratio)
          : quantile(flat.abs(), c.dynamic_thresholding_ratio);
  const at::Tensor bound = quantiles.clamp(1.0, c.sample_max_value).unsqueeze(1);
  return (at::clamp(flat, -bound, bound) / bound).reshape(image.sizes());
}

}  // namespace

std::vector<int64_t> without_empty_steps(const NoiseSchedule& schedule, std::vector<int64_t> visited,
                                         const std::function<int64_t(std::size_t i)>& next) {
  std::size_t first = 0;
  while (first + 1 < visited.size() && next(first) >= 0 && schedule.alpha_cumprod(next(first)) == 0.0F) ++first;
  visited.erase(visited.begin(), visited.begin() + static_cast<std::ptrdiff_t>(first));
  return visited;
}

double falling_number(double first, double stride, int64_t i) {
  const double difference = first - (first - stride);
  return first - static_cast<double>(i) * difference;
}

std::vector<int64_t> spaced_timesteps(const SchedulerConfig& c, int64_t steps) {
  std::vector<int64_t> timesteps;
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = spaced_timestep(c, steps, i);
    if (t < 0 || t >= c.num_train_timesteps) {
      throw base::ConfigError(
          "{} steps with timestep_spacing = \"{}\" and steps_offset = {} visit timestep {}; the model knows 0 to {}",
          steps, base::name_of(c.timestep_spacing), c.steps_offset, t, c.num_train_timesteps - 1);
    }
    timesteps.push_back(t);
  }
  return timesteps;
}

float NoiseLevel::signal() const { return std::sqrt(alpha_cumprod); }
float NoiseLevel::noise() const { return std::sqrt(noise_power()); }

at::Tensor predicted_image(PredictionType type, NoiseLevel level, const at::Tensor& output, const at::Tensor& sample) {
  switch (type) {
    case PredictionType::epsilon:
      return (sample - output * level.noise()) / level.signal();
    case PredictionType::sample:
      return output;
    case PredictionType::v_prediction:
      return sample * level.signal() - output * level.noise();
  }
  throw base::InternalError("prediction type {}", static_cast<int>(type));
}

at::Tensor predicted_noise(PredictionType type, NoiseLevel level, const at::Tensor& output, const at::Tensor& sample) {
  switch (type) {
    case PredictionType::epsilon:
      return output;
    case PredictionType::sample:
      return (sample - output * level.signal()) / level.noise();
    case PredictionType::v_prediction:
      return output * level.signal() + sample * level.noise();
  }
  throw base::InternalError("prediction type {}", static_cast<int>(type));
}

at::Tensor limit_image(const SchedulerConfig& c, const at::Tensor& image, const at::Tensor& valid) {
  if (c.thresholding) return dynamic_threshold(c, image, valid);
  if (c.clips()) return image.clamp(-c.clip_sample_range, c.clip_sample_range);
  return image;
}

at::Tensor answer_to(const at::Tensor& sample, double timestep, PredictionType type, NoiseLevel level,
                     const ModelCall& model) {
  at::Tensor answer = model.answer(sample, timestep);
  if (!model.valid.defined()) return answer;
  // The whole sample is noise there, and this the part of it that is asked for.
  const float part = type == PredictionType::epsilon ? 1.0F : type == PredictionType::sample ? 0.0F : level.signal();
  return at::where(model.valid, answer, sample * (part / level.noise()));
}

at::Tensor denoised(const SchedulerConfig& config, const NoisePoint& point, const at::Tensor& x,
                    const ModelCall& model) {
  const Scalings s = scalings(config, point);
  const at::Tensor shown = s.in == 1.0 ? x : x * s.in;
  const at::Tensor answer = model.answer(shown.to(at::kFloat), point.timestep);
  const bool direct = s.skip == 0.0 && s.out == 1.0;
  const at::Tensor image = limit_image(config, direct ? answer : x * s.skip + answer * s.out, model.valid);
  return model.valid.defined() ? at::where(model.valid, image, at::zeros({}, image.options())) : image;
}

}  // namespace ddpm::diffusion
