// Making pictures on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "denoise/loaded_model.h"
#include "diffusion/sampler.h"

namespace ddpm::denoise {

struct SamplingOptions {
  diffusion::SamplerOptions sampler;
  uint64_t seed = 0;
  int64_t count = 16;
  int64_t batch = 16;                  ///< images per rank and forward pass
  std::optional<int64_t> class_label;  ///< of all images: a row of the table, or the number that is embedded
};

/// Makes the sampler, and refuses options that do not fit the model, before any work. Throws base::ConfigError;
/// base::OutputError for a model that cannot be sampled.
std::unique_ptr<diffusion::Sampler> make_sampler(const LoadedModel& model, const diffusion::SchedulerConfig& scheduler,
                                                 const SamplingOptions& options);

/// Unit normal noise of images [first, first + count), float32 [count, C, H, W].
using NoiseSource = std::function<at::Tensor(int64_t first, int64_t count)>;
/// Receives images [first, first + n), float32 [n, C, H, W] on the host, contiguous, on rank 0, in order.
using ImageSink = std::function<void(int64_t first, const at::Tensor& images)>;

/// Samples `options.count` images. In each round every rank makes one batch, and rank 0 receives them in order, so that
/// memory is bounded. Image i is a pure function of the model and (seed, i), whatever the batch and the number of
/// ranks. Collective. `sink` runs on rank 0 only, and may throw: all ranks agree after each round.
void sample_images(const LoadedModel& model, diffusion::Sampler& sampler, const SamplingOptions& options,
                   const NoiseSource& noise, const ImageSink& sink, const run::Runtime& runtime, at::Device device);

/// The default source: per-image noise from (seed, image index).
NoiseSource seeded_noise(uint64_t seed, const diffusion::ImageShape& shape);

}  // namespace ddpm::denoise
