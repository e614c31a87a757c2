// The random inputs of training and sampling: each a pure function of the seed and of where it is used, whatever the
// number of ranks, threads and micro-batches (base/random.h). Those of training and validation are drawn on the device
// that computes, by the operators ddpm::draw_timesteps and ddpm::draw_normals, with the same bits on CPU and GPU;
// nothing waits for the device.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/random.h"
#include "diffusion/config.h"

namespace ddpm::diffusion {

/// Size of one image.
struct ImageShape {
  int64_t channels = 3;
  int64_t height = 0;
  int64_t width = 0;
  [[nodiscard]] int64_t elements() const { return channels * height * width; }
};

/// Standard normals of images [first, first + count): float32 [count, C, H, W], contiguous, on the CPU. Image n is
/// drawn from (seed, stream, step, position n), element = index in its CHW order.
at::Tensor image_normals(uint64_t seed, base::Stream stream, uint64_t step, uint64_t first, int64_t count,
                         const ImageShape& shape);

/// The random inputs of one batch that is learned from or validated on.
struct TrainingNoise {
  at::Tensor timesteps;  ///< int64 [N]
  at::Tensor noise;      ///< float32 [N, C, H, W], channels-last
};

/// A step for make_noise: int64, one number. GPUs read it from memory, so that captured work can be replayed for the
/// next step.
at::Tensor step_tensor(uint64_t step, at::Device device);

/// Timesteps and noise of positions [first_position, first_position + count) of the global batch of `step`, where
/// `step` is. With offset_noise o, each channel of an image is shifted by o times a normal of its own.
TrainingNoise make_noise(const DiffusionConfig& config, uint64_t seed, const at::Tensor& step, int64_t first_position,
                         int64_t count, const ImageShape& shape);

/// Timesteps and noise of images [first_image, first_image + count) of a validation set, on `device`: from streams of
/// their own, and the same whenever it is validated, so that losses compare.
TrainingNoise validation_noise(const DiffusionConfig& config, uint64_t seed, int64_t first_image, int64_t count,
                               const ImageShape& shape, at::Device device = at::kCPU);

/// What sampling starts from: unit normal noise of images [first_image, first_image + count) of a sample job.
at::Tensor initial_noise(uint64_t seed, uint64_t first_image, int64_t count, const ImageShape& shape);

}  // namespace ddpm::diffusion
