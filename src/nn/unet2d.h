// UNet2D: the noise-predicting network of DDPM, parameter for parameter diffusers' UNet2DModel (0.35).
//
// Ho, Jain, Abbeel: "Denoising diffusion probabilistic models", 2020 (appendix B); block structure and names as in
// diffusers' models/unets/unet_2d.py.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/config.h"
#include "nn/parameter.h"
#include "nn/partition.h"
#include "nn/unit.h"
#include "nn/unit_executor.h"

namespace ddpm::nn {

class UNet2D {
 public:
  /// Builds the units; parameters are not bound yet. Throws base::ConfigError as validate() does, and for a target of
  /// adapters that means no layer.
  explicit UNet2D(UNet2DConfig config);

  /// Predicts from noisy images x [N, in_channels, H, W] (any floating dtype and memory order; the layers of volumes
  /// lie one below the other, H = depth · height, and have the proportions of sample_size) at `timesteps` [N] (int64;
  /// floating noise levels with time_embedding_type = "fourier"), given what the configuration asks for. Returns [N,
  /// out_channels, H, W] in float32. Throws base::InternalError for inputs that do not fit.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const at::Tensor& timesteps, const Conditions& given,
                                   const RandomContext& random) const;
  /// Predicts a tile of each image. The partition knows of volumes and periodic axes what image_shape() says.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const at::Tensor& timesteps, const Conditions& given,
                                   const RandomContext& random, const Partition& partition) const;
  /// Predicts a tile, and has every unit run by `executor`.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const at::Tensor& timesteps, const Conditions& given,
                                   const RandomContext& random, const Partition& partition,
                                   UnitExecutor& executor) const;

  /// From now on this is part `part` of `parts` of the model, whose blocks are cut by channels (tensor parallelism):
  /// parameters have the shapes of what is here, and forward() wants a partition of as many channel parts. Call it
  /// before parameters are bound. Throws ConfigError for heads or groups of channels that `parts` does not divide.
  void hold_channels(int64_t part, int64_t parts);

  /// Describes forward() without dropout, as operations that read the parameters. The inputs are `sample`, `timestep`,
  /// and `class_labels` and `parameters` where the configuration asks for them.
  [[nodiscard]] graph::Graph graph() const;

  /// Has forward() without gradients take what follows from the weights of now, and is computed here once, and
  /// attention and convolutions that are faster with other bits (nn/ops/attention.h, nn/ops/tile_convolution.h).
  /// Whoever changes the weights afterwards calls it again; training does not call it. Periodic models stay as they
  /// are.
  void prepare_for_inference();

  [[nodiscard]] const UNet2DConfig& config() const { return config_; }
  /// What a partition of its images has to know of them.
  [[nodiscard]] ImageShape image_shape() const;
  /// The layers that may have an adapter.
  [[nodiscard]] std::vector<const AdaptableLayer*> adaptable() const;
  /// The layers that have an adapter. Where there are any, all other weights are base::ParameterRole::pretrained.
  [[nodiscard]] std::vector<const AdaptableLayer*> adapted() const;

  /// The units in execution order.
  [[nodiscard]] std::span<const std::unique_ptr<Unit>> units() const { return units_; }
  /// The parameters of all units, in execution order. Their order is part of the meaning of a seed: see
  /// initial_values().
  [[nodiscard]] std::span<Parameter* const> parameters() const { return parameters_; }
  /// Counts the operations of one image, unit by unit.
  [[nodiscard]] std::vector<Operations> unit_operations(ImageSize image) const;
  /// Counts the operations of one image.
  [[nodiscard]] Operations operations(ImageSize image) const;
  /// Elements of all parameters, constants included.
  [[nodiscard]] int64_t parameter_count() const;

 private:
  void adapt(const LoraConfig& lora);
  void collect_parameters();
  [[nodiscard]] const Partition& image_of(const Partition& partition) const;
  void check_inputs(const at::Tensor& x, const at::Tensor& timesteps, const Conditions& given) const;

  UNet2DConfig config_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<Parameter*> parameters_;
  std::unique_ptr<Partition> image_;  // a whole image, for models of volumes or with periodic axes; null: others
};

/// The type in which a model that computes in `dtype` is shown images: float32 where it maps them to 2x - 1, which is
/// done before they are rounded.
at::ScalarType input_dtype(const UNet2DConfig& config, at::ScalarType dtype);

}  // namespace ddpm::nn
