// The loss of a batch, and forward and backward of a micro-batch: DDPM's simple loss (Ho, Jain, Abbeel 2020, eq. 14).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "denoise/batch.h"
#include "diffusion/config.h"
#include "diffusion/noise.h"
#include "diffusion/schedule.h"
#include "engine/part_timer.h"
#include "nn/unet2d.h"
#include "nn/unit_executor.h"

namespace ddpm::denoise {

/// Sums over images, so that micro-batches and ranks are added without weights.
struct LossSums {
  double loss = 0.0;
  std::array<double, 4> quartile_loss{};  ///< by quarter of the timestep range, low timesteps first
  std::array<double, 4> quartile_count{};

  static constexpr std::size_t kCount = 9;  ///< numbers that pack() writes

  /// Adds one micro-batch: per-image losses float32 [n] and timesteps int64 [n].
  void add(const at::Tensor& losses, const at::Tensor& timesteps, int64_t num_train_timesteps);
  /// To and from a row of numbers, for one reduction over the ranks.
  void pack(std::span<double, kCount> row) const;
  void unpack(std::span<const double, kCount> row);
};

/// The sums of one micro-batch as pack() writes them, float64 [kCount] where the losses are: per-image losses float32
/// [n], timesteps int64 [n]. It has the bits of LossSums::add on CPU and GPU, and does not wait for the device (the
/// operator ddpm::loss_row).
at::Tensor loss_row(const at::Tensor& losses, const at::Tensor& timesteps, int64_t num_train_timesteps);

/// ((0+1)+(2+3))+…: the order in which ranks continue the sum (run.reproducible). It adds loss_row()s on their device.
at::Tensor tree_sum(std::span<const at::Tensor> rows);

struct DenoisingLoss {
  const nn::UNet2D& unet;
  const diffusion::NoiseSchedule& schedule;
  const diffusion::DiffusionConfig& config;
  uint64_t seed;
  nn::UnitExecutor& executor;               ///< runs the model's units
  at::ScalarType input_dtype = at::kFloat;  ///< of noisy images

  /// The loss of each image of `x0`, noised by `random`: float32 [n]. `dropout` says whether and where dropout draws;
  /// `x0` and `labels` as denoise/batch.h makes them.
  [[nodiscard]] at::Tensor losses(const at::Tensor& x0, const at::Tensor& labels,
                                  const diffusion::TrainingNoise& random, const nn::RandomContext& dropout) const;

  /// Draws timesteps and noise for the batch's positions, predicts, and back-propagates the sum over the batch of each
  /// image's loss × `loss_factor` (float32, one number). Returns the unscaled losses as a loss_row().
  at::Tensor forward_backward(const ModelBatch& batch, const at::Tensor& loss_factor, engine::PartTimer& parts) const;
};

}  // namespace ddpm::denoise
