#include "diffusion/noise.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "base/check.h"

namespace ddpm::diffusion {
namespace {

using base::RandomSequence;
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

at::Tensor draw_timesteps(uint64_t seed, Stream stream, uint64_t step, uint64_t first, int64_t count,
                          int64_t num_train_timesteps) {
  const at::Tensor t = at::empty({count}, at::kLong);
  int64_t* values = t.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const RandomSequence sequence(seed, stream, step, first + static_cast<uint64_t>(i));
    values[i] = sequence.below(static_cast<uint32_t>(num_train_timesteps));
  }
  return t;
}

TrainingNoise draw(const Streams& streams, const DiffusionConfig& config, uint64_t seed, uint64_t step,
                   int64_t first_position, int64_t count, const ImageShape& shape) {
  DDPM_CHECK(first_position >= 0 && count >= 0, "{} positions from {}", count, first_position);
  const auto first = static_cast<uint64_t>(first_position);
  TrainingNoise random{
      .timesteps = draw_timesteps(seed, streams.timestep, step, first, count, config.scheduler.num_train_timesteps),
      .noise = image_normals(seed, streams.noise, step, first, count, shape),
  };
  if (config.offset_noise != 0.0) {
    const ImageShape one_per_channel{.channels = shape.channels, .height = 1, .width = 1};
    random.noise.add_(image_normals(seed, streams.offset_noise, step, first, count, one_per_channel),
                      config.offset_noise);
  }
  return random;
}

}  // namespace

at::Tensor image_normals(uint64_t seed, Stream stream, uint64_t step, uint64_t first, int64_t count,
                         const ImageShape& shape) {
  at::Tensor images = at::empty({count, shape.channels, shape.height, shape.width}, at::kFloat);
  float* values = images.mutable_data_ptr<float>();
  const int64_t size = shape.elements();
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const RandomSequence sequence(seed, stream, step, first + static_cast<uint64_t>(i));
      sequence.fill_normal({values + i * size, static_cast<std::size_t>(size)});
    }
  });
  return images;
}

TrainingNoise make_noise(const DiffusionConfig& config, uint64_t seed, uint64_t step, int64_t first_position,
                         int64_t count, const ImageShape& shape) {
  return draw(kTraining, config, seed, step, first_position, count, shape);
}

TrainingNoise validation_noise(const DiffusionConfig& config, uint64_t seed, int64_t first_image, int64_t count,
                               const ImageShape& shape) {
  return draw(kValidation, config, seed, 0, first_image, count, shape);
}

at::Tensor initial_noise(uint64_t seed, uint64_t first_image, int64_t count, const ImageShape& shape) {
  return image_normals(seed, Stream::sample_initial, 0, first_image, count, shape);
}

}  // namespace ddpm::diffusion
