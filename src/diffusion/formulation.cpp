#include "diffusion/formulation.h"

#include <array>
#include <cmath>
#include <functional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/special_ndtri.h>
#include <ATen/ops/zeros_like.h>

#include "base/error.h"
#include "diffusion/loss.h"

namespace ddpm::diffusion {
namespace {

using base::Stream;

/// What timesteps and noise are drawn from.
struct Streams {
  Stream timestep;
  Stream noise;
  Stream offset_noise;
};
constexpr Streams kTraining = {Stream::timestep, Stream::noise, Stream::offset_noise};
constexpr Streams kValidation = {Stream::validation_timestep, Stream::validation_noise,
                                 Stream::validation_offset_noise};

/// What the noise level of each image follows from: numbers drawn at random, or one quantile of all of them.
struct LevelSource {
  std::function<at::Tensor(int64_t below)> integers;  // int64 [n]
  std::function<at::Tensor()> uniforms;               // float64 [n], in (0, 1)
  std::function<at::Tensor()> normals;                // float64 [n]
};

LevelSource drawn(const Draws& draws, Stream stream) {
  return {.integers = [=](int64_t below) { return draws.integers(stream, below); },
          .uniforms = [=] { return draws.uniforms(stream); },
          .normals = [=] { return draws.normals(stream); }};
}

LevelSource at_quantile(double quantile, int64_t n, at::Device device) {
  const at::Tensor all = at::full({n}, quantile, at::TensorOptions(device).dtype(at::kDouble));
  return {.integers = [=](int64_t below) { return (all * below).floor().to(at::kLong); },
          .uniforms = [=] { return all; },
          .normals = [=] { return at::special_ndtri(all); }};
}

/// t in (0, 1) of flow before the shift, and of ddpm as a fraction of T: float64.
at::Tensor fractions(const DiffusionConfig& c, const LevelSource& source) {
  if (c.timestep_sampler == TimestepSampler::uniform) return source.uniforms();
  return (source.normals() * c.logit_std + c.logit_mean).sigmoid();
}

/// Factors of y and ε, float64 [N]; float32 holds their images' products.
at::Tensor mixed(const at::Tensor& y, const at::Tensor& of_y, const at::Tensor& noise, const at::Tensor& of_noise,
                 at::ScalarType dtype) {
  const at::Tensor each = at::arange(of_y.size(0), of_y.options().dtype(at::kLong));
  return blend(y, noise, each, of_y.to(at::kFloat), of_noise.to(at::kFloat), dtype);
}

double sign(const SchedulerConfig& c) { return c.prediction_type == PredictionType::v_prediction ? -1.0 : 1.0; }

// ddpm

TrainingNoise levels_ddpm(const DiffusionConfig& c, const LevelSource& source) {
  const int64_t total = c.scheduler.num_train_timesteps;
  const bool uniform = c.timestep_sampler == TimestepSampler::uniform;
  const at::Tensor t =
      uniform ? source.integers(total) : (fractions(c, source) * total).floor().clamp_max(total - 1).to(at::kLong);
  return {.timesteps = t, .place = t, .places = total};
}

at::Tensor shown_ddpm(const ForwardProcess& p, const at::Tensor& y, const TrainingNoise& random, at::ScalarType dtype) {
  return p.schedule().add_noise(y, random.noise, random.timesteps, dtype);
}

at::Tensor asked_ddpm(const ForwardProcess& p, const at::Tensor& y, const TrainingNoise& random) {
  return p.schedule().target(y, random.noise, random.timesteps);
}

at::Tensor weight_ddpm(const ForwardProcess& p, const TrainingNoise& random) {
  return loss_weight(p.schedule(), p.config().snr_gamma, random.timesteps);
}

/// With x/s = α y + σ ε and α² + σ² = 1: Salimans & Ho 2022, appendix D. The same image as predicted_image() of
/// sampler_formulas.h gives, which ddpm and ddim compute in the order of diffusers' operations.
Scalings scalings_ddpm(const SchedulerConfig& c, const NoisePoint& point) {
  const double s = std::hypot(point.alpha, point.sigma);
  const double alpha = point.alpha / s;
  const double sigma = point.sigma / s;
  switch (c.prediction_type) {
    case PredictionType::epsilon:
      return {.in = 1.0 / s, .skip = 1.0 / (s * alpha), .out = -sigma / alpha};
    case PredictionType::sample:
      return {.in = 1.0 / s, .skip = 0.0, .out = 1.0};
    case PredictionType::v_prediction:
      return {.in = 1.0 / s, .skip = alpha / s, .out = -sigma};
  }
  throw base::InternalError("prediction type {}", static_cast<int>(c.prediction_type));
}

// edm, with d = sigma_data: c_in x = (y + σ ε) / √(σ² + d²); (y - c_skip x) / c_out = (σ/d y - d ε) / √(σ² + d²).

/// ln σ ~ N(p_mean, p_std²).
TrainingNoise levels_edm(const DiffusionConfig& c, const LevelSource& source) {
  constexpr double kUpperQuartile = 0.67448975019608171;  // a standard normal's quantile of 3/4
  const at::Tensor z = source.normals();
  const at::Tensor log_sigma = z * c.p_std + c.p_mean;
  return {
      .timesteps = (log_sigma * 0.25).to(at::kFloat),
      .levels = log_sigma.exp(),
      .place = (z >= -kUpperQuartile).to(at::kLong) + (z >= 0.0).to(at::kLong) + (z >= kUpperQuartile).to(at::kLong),
      .places = 4};
}

at::Tensor total_deviation(const ForwardProcess& p, const at::Tensor& sigma) {
  const double d = p.config().scheduler.sigma_data;
  return (sigma.square() + d * d).sqrt();
}

at::Tensor shown_edm(const ForwardProcess& p, const at::Tensor& y, const TrainingNoise& random, at::ScalarType dtype) {
  const at::Tensor total = total_deviation(p, random.levels);
  return mixed(y, total.reciprocal(), random.noise, random.levels / total, dtype);
}

at::Tensor asked_edm(const ForwardProcess& p, const at::Tensor& y, const TrainingNoise& random) {
  const double d = p.config().scheduler.sigma_data;
  const at::Tensor factor = total_deviation(p, random.levels).reciprocal() * sign(p.config().scheduler);
  return mixed(y, factor * random.levels / d, random.noise, factor * -d, at::kFloat);
}

Scalings scalings_edm(const SchedulerConfig& c, const NoisePoint& point) {
  return {.in = c_in(point.sigma, c.sigma_data),
          .skip = c_skip(point.sigma, c.sigma_data),
          .out = sign(c) * c_out(point.sigma, c.sigma_data)};
}

// flow

/// Esser et al. 2024, eq. 23, for the shift.
TrainingNoise levels_flow(const DiffusionConfig& c, const LevelSource& source) {
  const at::Tensor before = fractions(c, source);
  const double shift = c.scheduler.shift;
  const at::Tensor t = before * shift / (before * (shift - 1.0) + 1.0);
  return {.timesteps = (t * static_cast<double>(c.scheduler.num_train_timesteps)).to(at::kFloat),
          .levels = t,
          .place = (t * 4.0).floor().clamp_max(3.0).to(at::kLong),
          .places = 4};
}

at::Tensor shown_flow(const ForwardProcess& /*p*/, const at::Tensor& y, const TrainingNoise& random,
                      at::ScalarType dtype) {
  return mixed(y, 1.0 - random.levels, random.noise, random.levels, dtype);
}

at::Tensor asked_flow(const ForwardProcess& /*p*/, const at::Tensor& y, const TrainingNoise& random) {
  return random.noise - y;
}

/// D = x - t F at α = 1 - t, σ = t.
Scalings scalings_flow(const SchedulerConfig& /*c*/, const NoisePoint& point) {
  return {.in = 1.0, .skip = 1.0, .out = -point.sigma};
}

// regression

TrainingNoise levels_regression(const DiffusionConfig& /*c*/, const LevelSource& source) {
  const at::Tensor zeros = source.integers(1);
  return {.timesteps = zeros, .place = zeros, .places = 4};
}

at::Tensor shown_regression(const ForwardProcess& /*p*/, const at::Tensor& y, const TrainingNoise& /*random*/,
                            at::ScalarType dtype) {
  return at::zeros_like(y, y.options().dtype(dtype));
}

at::Tensor asked_regression(const ForwardProcess& /*p*/, const at::Tensor& y, const TrainingNoise& /*random*/) {
  return y;
}

Scalings scalings_regression(const SchedulerConfig& /*c*/, const NoisePoint& /*point*/) {
  return {.in = 0.0, .skip = 0.0, .out = 1.0};
}

at::Tensor weight_one(const ForwardProcess& /*p*/, const TrainingNoise& random) {
  return at::ones(random.timesteps.sizes(), random.timesteps.options().dtype(at::kFloat));
}

struct Row {
  Formulation formulation;
  TrainingNoise (*levels)(const DiffusionConfig&, const LevelSource&);
  at::Tensor (*shown)(const ForwardProcess&, const at::Tensor& y, const TrainingNoise&, at::ScalarType);
  at::Tensor (*asked)(const ForwardProcess&, const at::Tensor& y, const TrainingNoise&);
  at::Tensor (*weight)(const ForwardProcess&, const TrainingNoise&);
  Scalings (*scalings)(const SchedulerConfig&, const NoisePoint&);
};

constexpr std::array kRows = {
    Row{Formulation::ddpm, levels_ddpm, shown_ddpm, asked_ddpm, weight_ddpm, scalings_ddpm},
    Row{Formulation::edm, levels_edm, shown_edm, asked_edm, weight_one, scalings_edm},
    Row{Formulation::flow, levels_flow, shown_flow, asked_flow, weight_one, scalings_flow},
    Row{Formulation::regression, levels_regression, shown_regression, asked_regression, weight_one,
        scalings_regression},
};

const Row& row_of(Formulation formulation) {
  for (const Row& row : kRows) {
    if (row.formulation == formulation) return row;
  }
  throw base::InternalError("formulation {}", static_cast<int>(formulation));
}

TrainingNoise draw(const Streams& streams, const DiffusionConfig& c, const Draws& draws, const ImageShape& shape) {
  TrainingNoise noise = row_of(c.scheduler.formulation).levels(c, drawn(draws, streams.timestep));
  if (c.scheduler.formulation == Formulation::regression) return noise;
  noise.noise = draws.images(streams.noise, shape, streams.offset_noise, c.offset_noise);
  return noise;
}

}  // namespace

TrainingNoise make_noise(const DiffusionConfig& config, uint64_t seed, const at::Tensor& step, int64_t first_position,
                         int64_t count, const ImageShape& shape) {
  return draw(kTraining, config, {seed, step, first_position, count}, shape);
}

TrainingNoise validation_noise(const DiffusionConfig& config, uint64_t seed, int64_t first_image, int64_t count,
                               const ImageShape& shape, at::Device device) {
  const at::Tensor step = step_tensor(0, device);
  return draw(kValidation, config, {seed, step, first_image, count}, shape);
}

double GridLevel::quantile() const { return (static_cast<double>(index) + 0.5) / static_cast<double>(count); }

TrainingNoise grid_levels(const DiffusionConfig& config, const GridLevel& level, int64_t n, at::Device device) {
  return row_of(config.scheduler.formulation).levels(config, at_quantile(level.quantile(), n, device));
}

TrainingNoise grid_noise(const DiffusionConfig& config, uint64_t seed, const GridLevel& level, int64_t first_image,
                         int64_t count, const ImageShape& shape, at::Device device) {
  TrainingNoise noise = grid_levels(config, level, count, device);
  if (config.scheduler.formulation == Formulation::regression) return noise;
  const Draws draws{seed, step_tensor(static_cast<uint64_t>(level.index), device), first_image, count};
  noise.noise = draws.images(kValidation.noise, shape, kValidation.offset_noise, config.offset_noise);
  return noise;
}

double c_skip(double sigma, double sigma_data) {
  return sigma_data * sigma_data / (sigma * sigma + sigma_data * sigma_data);
}
double c_out(double sigma, double sigma_data) { return sigma * sigma_data / std::hypot(sigma, sigma_data); }
double c_in(double sigma, double sigma_data) { return 1.0 / std::hypot(sigma, sigma_data); }
double c_noise(double sigma) { return 0.25 * std::log(sigma); }

Scalings scalings(const SchedulerConfig& c, const NoisePoint& point) {
  return row_of(c.formulation).scalings(c, point);
}

ForwardProcess::ForwardProcess(const DiffusionConfig& config, at::Device device)
    : config_(config), schedule_(config.scheduler, device) {}

at::Tensor ForwardProcess::shown(const at::Tensor& y, const TrainingNoise& random, at::ScalarType dtype) const {
  return row_of(config_.scheduler.formulation).shown(*this, y, random, dtype);
}

at::Tensor ForwardProcess::asked(const at::Tensor& y, const TrainingNoise& random) const {
  return row_of(config_.scheduler.formulation).asked(*this, y, random);
}

at::Tensor ForwardProcess::weight(const TrainingNoise& random) const {
  return row_of(config_.scheduler.formulation).weight(*this, random);
}

}  // namespace ddpm::diffusion
