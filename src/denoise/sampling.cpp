#include "denoise/sampling.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/pulse.h"
#include "base/terminal.h"
#include "comm/collectives.h"
#include "diffusion/samplers.h"
#include "layout/dealt_batches.h"
#include "observe/progress_bar.h"

namespace ddpm::denoise {
namespace {

constexpr int kImageTag = 1;

void check_class_label(const nn::UNet2DConfig& model, const std::optional<int64_t>& label) {
  if (model.class_embed_type == nn::ClassEmbedding::identity) {
    throw base::OutputError(
        "the model's class_embed_type is \"identity\", which takes ready-made embeddings; wanted: one "
        "that takes labels");
  }
  const bool conditional = nn::is_class_conditional(model);
  if (label && !conditional) throw base::ConfigError("--class-label {}: the model has no class embedding", *label);
  if (!label && conditional) {
    throw base::ConfigError("--class-label is missing: the model is conditioned on {}",
                            model.num_class_embeds ? base::counted(*model.num_class_embeds, "class") : "a label");
  }
  if (label && *label < 0) throw base::ConfigError("--class-label {}: a class from 0 on is wanted", *label);
  if (label && model.num_class_embeds && *label >= *model.num_class_embeds) {
    throw base::ConfigError("--class-label {}: a class from 0 to {} is wanted", *label, *model.num_class_embeds - 1);
  }
}

diffusion::Denoiser make_denoiser(const LoadedModel& model, const std::optional<int64_t>& class_label) {
  return [&model, class_label](const at::Tensor& x, const at::Tensor& t) {
    at::Tensor labels;
    if (class_label) labels = at::full({x.size(0)}, *class_label, x.options().dtype(at::kLong));
    return model.unet->forward(x, t, labels, nn::RandomContext{});
  };
}

}  // namespace

NoiseSource seeded_noise(uint64_t seed, const diffusion::ImageShape& shape) {
  return [seed, shape](int64_t first, int64_t count) {
    return diffusion::initial_noise(seed, static_cast<uint64_t>(first), count, shape);
  };
}

std::unique_ptr<diffusion::Sampler> make_sampler(const LoadedModel& model, const diffusion::SchedulerConfig& scheduler,
                                                 const SamplingOptions& options) {
  check_class_label(model.unet->config(), options.class_label);
  return diffusion::make_sampler(scheduler, options.sampler);
}

void sample_images(const LoadedModel& model, diffusion::Sampler& sampler, const SamplingOptions& options,
                   const NoiseSource& noise, const ImageSink& sink, const run::Runtime& runtime, at::Device device) {
  const at::NoGradGuard no_grad;
  comm::Communicator& world = runtime.session.world();
  const diffusion::Denoiser denoise = make_denoiser(model, options.class_label);
  const int64_t ranks = world.size();
  const layout::DealtBatches batches{.count = options.count, .batch_size = options.batch, .ranks = ranks};
  const int64_t rounds = batches.rounds();
  observe::ProgressBar progress(
      observe::progress_style(observe::ProgressChoice::automatic, runtime.log.speaks(), base::stderr_is_terminal()),
      {.label = "sample", .total = rounds * options.sampler.steps, .images_per_unit = 0});

  for (int64_t round = 0; round < rounds; ++round) {
    const layout::Range mine = batches.items(round, world.rank());
    at::Tensor images;
    comm::agree(world, [&] {
      if (mine.empty()) return;
      const diffusion::SampleNoise fresh{options.seed, static_cast<uint64_t>(mine.begin)};
      images = diffusion::sample(sampler, fresh, noise(mine.begin, mine.size()).to(device), denoise,
                                 [&](std::size_t done, std::size_t total) {
                                   base::pulse();
                                   progress.update(round * static_cast<int64_t>(total) + static_cast<int64_t>(done));
                                 })
                   .to(at::kCPU)
                   .contiguous();
    });
    if (world.rank() != 0 && !mine.empty()) {
      world.send({images.const_data_ptr<float>(), images.numel(), base::DType::f32}, 0, kImageTag).wait();
    }
    std::vector<std::pair<int64_t, at::Tensor>> received;
    for (int64_t rank = 0; world.rank() == 0 && rank < ranks; ++rank) {
      const layout::Range theirs = batches.items(round, rank);
      if (theirs.empty()) break;
      at::Tensor part = images;
      if (rank != 0) {
        part = at::empty({theirs.size(), images.size(1), images.size(2), images.size(3)}, at::kFloat);
        world
            .receive({part.mutable_data_ptr<float>(), part.numel(), base::DType::f32}, static_cast<int>(rank),
                     kImageTag)
            .wait();
      }
      received.emplace_back(theirs.begin, part);
    }
    comm::agree(world, [&] {
      for (const auto& [first, part] : received) sink(first, part);
    });
  }
}

}  // namespace ddpm::denoise
