// The formulations: how noise ε is mixed with an image y, what the network F is told, shown and asked, and what its
// answer says about the image. One table, a row each.
//
// |                 | ddpm                   | edm                             | flow                | regression |
// |-----------------|------------------------|---------------------------------|---------------------|------------|
// | noisy image x   | √ᾱ_t y + √(1-ᾱ_t) ε    | y + σ ε                         | (1 - t) y + t ε     | none       |
// | levels          | t uniform in 0 … T-1   | ln σ ~ N(p_mean, p_std²)        | t uniform in (0, 1) | none       |
// | F is told       | t                      | c_noise = ¼ ln σ                | T t                 | 0          |
// | F is shown      | x                      | c_in x                          | x                   | 0          |
// | F should answer | ε, y or v              | (y - c_skip x) / c_out          | ε - y               | y          |
// | loss weight     | 1, or min-SNR          | λ(σ) c_out² = 1                 | 1                   | 1          |
//
// T is num_train_timesteps. What a network of regression answers tends to the mean of y given the condition, which the
// squared error is least for. It has the input channels of the others, so that their weights may be exchanged.
//
// ddpm: Ho, Jain, Abbeel, "Denoising Diffusion Probabilistic Models", 2020. edm: Karras, Aittala, Aila, Laine,
// "Elucidating the Design Space of Diffusion-Based Generative Models", 2022. flow: Lipman et al., "Flow Matching for
// Generative Modeling", 2022; logit-normal t and shift: Esser et al., "Scaling Rectified Flow Transformers", 2024,
// sections 3.1 and 5.3.2.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "diffusion/config.h"
#include "diffusion/noise.h"
#include "diffusion/schedule.h"

namespace ddpm::diffusion {

// Karras et al. 2022, table 1, column "Ours" ("EDM"). λ(σ) = 1 / c_out²: eq. 8 with the weight that makes it uniform.
double c_skip(double sigma, double sigma_data);
double c_out(double sigma, double sigma_data);
double c_in(double sigma, double sigma_data);
double c_noise(double sigma);

/// One level of noise on the way from noise to an image: x = alpha y + sigma ε, of which F is told as `timestep`.
struct NoisePoint {
  double timestep = 0.0;
  double alpha = 1.0;
  double sigma = 0.0;
};

/// D(x) = skip x + out F(in x): the image that F's answer speaks of.
struct Scalings {
  double in;
  double skip;
  double out;
};
/// The scalings of a model whose scheduler is `c`. For ddpm any multiple of (√ᾱ, √(1-ᾱ)) is a point.
Scalings scalings(const SchedulerConfig& c, const NoisePoint& point);

/// The random inputs of one batch that is learned from or validated on.
struct TrainingNoise {
  at::Tensor timesteps;    ///< what the network is told: int64 [N], or float32 [N] of edm and flow
  at::Tensor noise = {};   ///< float32 [N, C, H, W], channels-last; undefined: none
  at::Tensor levels = {};  ///< σ of edm or t of flow: float64 [N]
  /// Where each image lies among noise levels: int64 [N], from 0 to places - 1. ddpm has a place for each timestep; edm
  /// and flow have four, quarters of the distribution of ln σ and of the range of t. Regression uses the first of four.
  at::Tensor place = {};
  int64_t places = 0;
};

/// Timesteps and noise of positions [first_position, first_position + count) of the global batch of `step`, where
/// `step` is. With offset_noise o, each channel of an image is shifted by o times a normal of its own.
TrainingNoise make_noise(const DiffusionConfig& config, uint64_t seed, const at::Tensor& step, int64_t first_position,
                         int64_t count, const ImageShape& shape);

/// Timesteps and noise of images [first_image, first_image + count) of a validation set, on `device`: from streams of
/// their own, and the same whenever it is validated, so that losses compare.
TrainingNoise validation_noise(const DiffusionConfig& config, uint64_t seed, int64_t first_image, int64_t count,
                               const ImageShape& shape, at::Device device = at::kCPU);

/// One of `count` noise levels that stand for those of training: the middles of equal shares of their distribution, so
/// that the mean over them is about the mean that training's loss tends to.
struct GridLevel {
  int64_t index = 0;
  int64_t count = 1;
  [[nodiscard]] double quantile() const;  ///< (index + 1/2) / count
};
/// The level for n images, without noise. A timestep of ddpm is the one whose share of 0 … T - 1 holds the quantile.
TrainingNoise grid_levels(const DiffusionConfig& config, const GridLevel& level, int64_t n,
                          at::Device device = at::kCPU);
/// The level, and noise of images [first_image, first_image + count) of a validation set: that of validation_noise()
/// for level 0, and of its streams at step `index` for the others.
TrainingNoise grid_noise(const DiffusionConfig& config, uint64_t seed, const GridLevel& level, int64_t first_image,
                         int64_t count, const ImageShape& shape, at::Device device = at::kCPU);

/// The forward process of training, for images on `device`.
class ForwardProcess {
 public:
  explicit ForwardProcess(const DiffusionConfig& config, at::Device device = at::kCPU);

  [[nodiscard]] const DiffusionConfig& config() const { return config_; }
  [[nodiscard]] const NoiseSchedule& schedule() const { return schedule_; }  ///< ddpm's noise levels

  /// What the network is shown of images `y` [N, C, H, W], rounded to `dtype`; `random` is made for the same config.
  [[nodiscard]] at::Tensor shown(const at::Tensor& y, const TrainingNoise& random,
                                 at::ScalarType dtype = at::kFloat) const;
  /// What it should answer: float32 [N, C, H, W].
  [[nodiscard]] at::Tensor asked(const at::Tensor& y, const TrainingNoise& random) const;
  /// The weight of each image's mean squared error: float32 [N].
  [[nodiscard]] at::Tensor weight(const TrainingNoise& random) const;

 private:
  DiffusionConfig config_;
  NoiseSchedule schedule_;
};

}  // namespace ddpm::diffusion
