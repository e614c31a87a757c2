// The loss of a batch, and forward and backward of a micro-batch: the weighted mean squared error of what the network
// answers, in every formulation (diffusion/formulation.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "denoise/batch.h"
#include "diffusion/formulation.h"
#include "engine/part_timer.h"
#include "nn/unet2d.h"
#include "nn/unit_executor.h"

namespace ddpm::denoise {

/// Sums over images, so that micro-batches and ranks are added without weights.
struct LossSums {
  double loss = 0.0;
  std::array<double, 4> quartile_loss{};  ///< by quarter of the noise levels, low ones first: see TrainingNoise::place
  std::array<double, 4> quartile_count{};

  static constexpr std::size_t kCount = 9;  ///< numbers that pack() writes

  /// Adds one micro-batch: per-image losses float32 [n] and places int64 [n] among `places`.
  void add(const at::Tensor& losses, const at::Tensor& place, int64_t places);
  /// To and from a row of numbers, for one reduction over the ranks.
  void pack(std::span<double, kCount> row) const;
  void unpack(std::span<const double, kCount> row);
};

/// The sums of one micro-batch as pack() writes them, float64 [kCount] where the losses are: per-image losses float32
/// [n], places int64 [n]. It has the bits of LossSums::add on CPU and GPU, and does not wait for the device (the
/// operator ddpm::loss_row).
at::Tensor loss_row(const at::Tensor& losses, const at::Tensor& place, int64_t places);

/// ((0+1)+(2+3))+…: the order in which ranks continue the sum (run.reproducible). It adds loss_row()s on their device.
at::Tensor tree_sum(std::span<const at::Tensor> rows);

/// Images that noise is drawn for: those of x0, or the tiles of whole ones that are here.
diffusion::ImageShape noise_shape(const at::Tensor& x0, const nn::Partition& partition);

struct DenoisingLoss {
  const nn::UNet2D& unet;
  const diffusion::ForwardProcess& process;
  uint64_t seed;
  nn::UnitExecutor& executor;               ///< runs the model's units
  at::ScalarType input_dtype = at::kFloat;  ///< type in which the network is shown noisy images
  /// The tile of each image that is here, in batches as well. Losses are those of whole images: collective over the
  /// tiles.
  const nn::Partition& partition = nn::whole_image();

  /// The loss of each image of `batch`, noised by `random`: float32 [n]. `dropout` says whether and where dropout
  /// draws. It has no gradient where images are cut.
  [[nodiscard]] at::Tensor losses(const ModelBatch& batch, const diffusion::TrainingNoise& random,
                                  const nn::RandomContext& dropout) const;

  /// The losses() of each channel by itself: float32 [n, C].
  [[nodiscard]] at::Tensor channel_losses(const ModelBatch& batch, const diffusion::TrainingNoise& random,
                                          const nn::RandomContext& dropout) const;

  /// Whether each image has no valid pixel, so that its loss is 0: bool [n]. Collective over the tiles.
  [[nodiscard]] at::Tensor blank(const ModelBatch& batch) const;

  /// What the forward pass of a micro-batch leaves.
  struct Forward {
    at::Tensor losses;  ///< what this rank adds to the loss of each image; undefined where another rank has the answer
    at::Tensor place;   ///< where each image's noise level lies among `places`: int64 [n]
    int64_t places = 0;

    /// The sum over the batch of each image's loss × `loss_factor` (float32, one number), to be back-propagated.
    [[nodiscard]] at::Tensor objective(const at::Tensor& loss_factor) const {
      return losses.defined() ? losses.sum() * loss_factor : at::Tensor();
    }
  };
  /// Draws noise levels, noise and dropped labels for the batch's positions, and predicts. Gradients of tiles are to be
  /// added.
  [[nodiscard]] Forward forward(const ModelBatch& batch, engine::PartTimer& parts) const;
  /// The unscaled losses as a loss_row(), of images that several ranks share on the first of them alone, and zeros
  /// elsewhere.
  [[nodiscard]] at::Tensor row(const Forward& pass) const;
  /// forward(), backward of its objective, and its row().
  at::Tensor forward_backward(const ModelBatch& batch, const at::Tensor& loss_factor, engine::PartTimer& parts) const;

 private:
  /// How many pixels of each whole image the loss sees: int64 [n]. Undefined: all that are in the batch.
  [[nodiscard]] at::Tensor pixels_seen(const ModelBatch& batch) const;
  /// What this tile adds to the loss of each image; undefined where another rank has the answer.
  [[nodiscard]] at::Tensor own_losses(const ModelBatch& batch, const diffusion::TrainingNoise& random,
                                      const nn::RandomContext& dropout) const;
  /// The sum of what the tiles add, without a gradient where there are several.
  [[nodiscard]] at::Tensor over_tiles(const at::Tensor& own) const;
  /// What the network answers.
  [[nodiscard]] at::Tensor answer(const ModelBatch& batch, const diffusion::TrainingNoise& random,
                                  const nn::RandomContext& dropout) const;
  /// The batch's labels, of which each is replaced by the null class with probability class_dropout.
  [[nodiscard]] at::Tensor kept_labels(const ModelBatch& batch) const;
};

}  // namespace ddpm::denoise
