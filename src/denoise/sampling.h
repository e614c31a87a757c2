// Drawing images, which may be fields, on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include <ATen/core/Tensor.h>

#include "denoise/loaded_model.h"
#include "denoise/overlapping_windows.h"
#include "denoise/sample_inputs.h"
#include "denoise/tile_pair.h"
#include "diffusion/sampler.h"
#include "layout/dealt_batches.h"
#include "layout/mesh.h"
#include "nn/unit_executor.h"

namespace ddpm::denoise {

struct SamplingOptions {
  diffusion::SamplerOptions sampler;
  uint64_t seed = 0;
  int64_t count = 16;
  int64_t batch = 16;  ///< images, or windows of them, per rank and forward pass
  /// Where set, the model is guided by `weak`, or by itself without class and conditions: see diffusion/guidance.h.
  std::optional<double> guidance_scale;
  const LoadedModel* weak = nullptr;  ///< a less trained model, which is given the same
  /// Where set, images are larger than the model's: they are drawn by windows with this overlap, see
  /// denoise/overlapping_windows.h.
  std::optional<int64_t> overlap;
};

/// Makes the sampler, and refuses options that do not fit the model, before any work. Throws base::ConfigError;
/// base::OutputError for a model that cannot be sampled.
std::unique_ptr<diffusion::Sampler> make_sampler(const LoadedModel& model, const diffusion::SchedulerConfig& scheduler,
                                                 const SampleInputs& inputs, const SamplingOptions& options);

/// Unit normal noise of images [first, first + count), float32 [count, C, H, W].
using NoiseSource = std::function<at::Tensor(int64_t first, int64_t count)>;
/// The default source: per-image noise from (seed, image index), of the part of the model's images that is here, drawn
/// on `device`.
NoiseSource seeded_noise(uint64_t seed, const LoadedModel& model, const nn::Partition& partition, at::Device device);

/// Draws batches of images with a sampler. Image i is a pure function of the model and (seed, i).
class BatchSampler {
 public:
  /// All that is referred to outlives the object.
  BatchSampler(const LoadedModel& model, diffusion::Sampler& sampler, const SampleInputs& inputs,
               const SamplingOptions& options, NoiseSource noise, at::Device device);
  /// From now on `executor`, which outlives the object, runs the model's units. Where that gathers weights from other
  /// ranks, all ranks draw at once, with as many calls of the model.
  void run_units_by(nn::UnitExecutor& executor) { executor_ = &executor; }
  /// From now on this rank computes its tile of each image, of which the noise source draws the noise, and all tiles of
  /// an image are drawn at once. Images come out whole, on each of the ranks. Not where they are drawn by windows.
  void use_tiles(const TilePair& tiles) { tiles_ = tiles; }
  /// What images [first, first + n) are drawn given. Reads the dataset; may be called on one rank alone.
  [[nodiscard]] GivenTwice read(int64_t first, int64_t n) const;
  /// These images, given what read() gave: float32 [n, C, H, W] on the host, contiguous. `progress` is called after
  /// each step. Reads no file. With use_tiles(), or an executor that gathers weights, it talks to other ranks.
  at::Tensor draw_given(int64_t first, int64_t n, const GivenTwice& given, const diffusion::SampleProgress& progress);
  /// read(), draw_given() and expect_finite(), where this rank draws whole images with weights of its own.
  at::Tensor draw(int64_t first, int64_t n, const diffusion::SampleProgress& progress);
  /// In how many windows an image is drawn.
  [[nodiscard]] int64_t windows() const { return windows_ ? windows_->count() : 1; }

 private:
  using Work = std::function<at::Tensor(const at::Tensor& images, const at::Tensor& timesteps, const Given& given)>;
  [[nodiscard]] diffusion::Denoiser by_windows(Work work, Given given) const;
  /// What this rank's tile is given.
  [[nodiscard]] Given seen(Given given) const;
  [[nodiscard]] diffusion::Denoiser prediction_of(const LoadedModel& model, Given given) const;

  const LoadedModel& model_;
  diffusion::Sampler& sampler_;
  const SampleInputs& inputs_;
  const SamplingOptions& options_;
  NoiseSource noise_;
  at::Device device_;
  nn::UnitExecutor* executor_ = nullptr;
  TilePair tiles_;
  std::optional<OverlappingWindows> windows_;  // none: the model draws images at once
};

/// Throws NumericsError where images from number `first` on hold values that are not finite.
void expect_finite(const at::Tensor& images, int64_t first);

/// Receives images [first, first + n), float32 [n, C, H, W] on the host, contiguous, on rank 0, in order.
using ImageSink = std::function<void(int64_t first, const at::Tensor& images)>;

/// Takes what was drawn of one round of `batches` to rank 0, which hands it to `sink` in order. The batches were dealt
/// to `ranks` of the world, of which rank 0 is the first; `images` are what this one drew, undefined where it has none
/// to hand over. Collective; throws as the sink, on all ranks.
void collect_round(comm::Communicator& world, std::span<const int64_t> ranks, const layout::DealtBatches& batches,
                   int64_t round, const at::Tensor& images, const ImageSink& sink);

/// Samples `options.count` images. `mesh`, of the world's ranks, says which of them draw the same images. In each round
/// all others make one batch each, and rank 0 receives them in order, so that memory is bounded. Collective. `sink`
/// runs on rank 0 only, and may throw: all ranks agree after each round.
void sample_images(BatchSampler& sampler, const SamplingOptions& options, const ImageSink& sink,
                   const layout::Mesh& mesh, const run::Runtime& runtime);

/// Draws images while training: where `sampler` runs units by an executor, whose weights ranks may have to gather from
/// each other, every rank calls the model as often, and one that has no image left repeats the first ones and discards
/// them. Values need not be finite. `progress` is called after each step of the sampler. Collective.
void sample_together(BatchSampler& sampler, const SamplingOptions& options, const ImageSink& sink,
                     comm::Communicator& world, const layout::Mesh& mesh, const diffusion::SampleProgress& progress);

}  // namespace ddpm::denoise
