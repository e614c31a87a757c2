#include "denoise/sampling.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/all.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/select.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "base/pulse.h"
#include "base/terminal.h"
#include "comm/collectives.h"
#include "comm/message_tags.h"
#include "denoise/denoising_loss.h"
#include "denoise/mean_model.h"
#include "denoise/model_inputs.h"
#include "denoise/record_difference.h"
#include "denoise/timestep_fit.h"
#include "diffusion/guidance.h"
#include "diffusion/samplers.h"
#include "diffusion/scheduler_json.h"
#include "layout/dealt_batches.h"
#include "observe/progress_bar.h"

namespace ddpm::denoise {
namespace {

// What models must share, in the words of their config.json: all that is compared.
std::string images_text(const nn::UNet2DConfig& model) {
  return fmt::format("{} with in_channels = {}, out_channels = {}", fmt::join(nn::image_size(model).sides(), " × "),
                     model.in_channels, model.out_channels);
}

std::string classes_text(const nn::UNet2DConfig& model) {
  return fmt::format("num_class_embeds = {}, class_embed_type = {}",
                     model.num_class_embeds ? std::to_string(*model.num_class_embeds) : "null",
                     model.class_embed_type ? base::name_of(*model.class_embed_type) : "null");
}

std::string parameters_text(const nn::UNet2DConfig& model) {
  return fmt::format("num_parameters = {}", model.num_parameters ? std::to_string(*model.num_parameters) : "null");
}

void expect_same(const char* what, const std::string& weak, const std::string& wanted) {
  if (weak == wanted) return;
  throw base::ConfigError("--guidance-model: its {} are {}; wanted: those of --model, {}", what, weak, wanted);
}

void check_weak_model(const LoadedModel& model, const LoadedModel& weak, const SamplingOptions& options) {
  const nn::UNet2DConfig& one = model.unet->config();
  const nn::UNet2DConfig& other = weak.unet->config();
  expect_same("images", images_text(other), images_text(one));
  if (options.overlap) expect_cut_by_windows(model, other, "--guidance-model");
  expect_same("classes", classes_text(other), classes_text(one));
  expect_same("parameters", parameters_text(other), parameters_text(one));
  const std::string differs = difference(weak.image, model.image);
  if (!differs.empty()) {
    throw base::ConfigError(
        "--guidance-model: it was trained on other fields, or with other transforms, than --model: {}", differs);
  }
  const bool means = model.mean && weak.mean;
  if ((model.mean || weak.mean) && !(means && digest_of_weights(*model.mean) == digest_of_weights(*weak.mean))) {
    throw base::ConfigError(
        "--guidance-model: --model draws {}, but this model {}; wanted: one that was trained with "
        "the same diffusion.mean_model",
        model.mean ? "what a regression leaves" : "whole images",
        !weak.mean   ? "draws whole images"
        : model.mean ? "was trained with another regression"
                     : "draws what a regression leaves");
  }
  // Files of the same schedule differ by what else their writers put into them.
  const auto read = [&](const LoadedModel& from) {
    return diffusion::write_scheduler(
        diffusion::read_scheduler(from.scheduler, options.sampler.scheduler, from.scheduler_origin));
  };
  if (read(weak) != read(model)) {
    throw base::ConfigError(
        "--guidance-model: its scheduler ({}) is not that of --model ({}); wanted: the same formulation and schedule",
        weak.scheduler_origin, model.scheduler_origin);
  }
}

void check_guidance(const LoadedModel& model, const SampleInputs& inputs, const SamplingOptions& options) {
  if (options.weak && !options.guidance_scale) {
    throw base::ConfigError("--guidance-model needs --guidance-scale, 2 for example; 1 is no guidance");
  }
  if (!options.guidance_scale) return;
  if (diffusion::formulation_of(model.scheduler, model.scheduler_origin) == diffusion::Formulation::regression) {
    throw base::ConfigError("--guidance-scale {}: a regression is not guided; wanted: no such option",
                            *options.guidance_scale);
  }
  if (options.weak) {
    check_weak_model(model, *options.weak, options);
  } else {
    inputs.expect_droppable(fmt::format("--guidance-scale {}", *options.guidance_scale));
  }
}

/// Refuses a class or timesteps that the network has no finite embedding of.
void check_embeddings(const nn::UNet2DConfig& model, const diffusion::Sampler& sampler, const SampleInputs& inputs,
                      const SamplingOptions& options) {
  const std::string problem = visited_problem(model, sampler.timesteps());
  if (!problem.empty()) {
    throw base::ConfigError("--scheduler {} --steps {}: {}; wanted: another scheduler, spacing or number of steps",
                            base::name_of(options.sampler.scheduler), options.sampler.steps, problem);
  }
  for (int64_t i = 0; i < options.count; ++i) {
    const std::optional<int64_t> label = inputs.label(i);
    if (!label) return;
    const std::string wrong = label_problem(model, *label);
    if (!wrong.empty()) throw base::ConfigError("--class-label: {}", wrong);
  }
}

/// How batches are dealt to the ranks that draw different images.
struct Dealt {
  std::vector<int64_t> ranks;  ///< one rank of each group that draws the same images, by its share; rank 0 is the first
  int64_t number = 0;          ///< which share of the images this rank draws
  bool speaks = false;         ///< whether this rank is the one that hands over what its group draws
  layout::DealtBatches batches = {};
};

Dealt deal(const SamplingOptions& options, const layout::Mesh& mesh, int64_t rank) {
  Dealt dealt{.ranks = mesh.ranks(0, layout::kDataParallel), .number = layout::image_share(mesh, rank)};
  std::ranges::sort(dealt.ranks, {}, [&](int64_t other) { return layout::image_share(mesh, other); });
  dealt.speaks = std::ranges::count(dealt.ranks, rank) > 0;
  dealt.batches = {.count = options.count, .batch_size = options.batch, .ranks = std::ssize(dealt.ranks)};
  return dealt;
}

}  // namespace

NoiseSource seeded_noise(uint64_t seed, const LoadedModel& model, const nn::Partition& partition, at::Device device) {
  const data::ImageFormat image = model.image.format(model.unet->config().out_channels, base::DType::f32);
  const at::Tensor sizes = at::empty({1, image.channels, image.rows(), image.width}, at::kMeta);
  return [seed, shape = noise_shape(partition.cut(sizes), partition), device](int64_t first, int64_t count) {
    return diffusion::initial_noise(seed, static_cast<uint64_t>(first), count, shape, device);
  };
}

std::unique_ptr<diffusion::Sampler> make_sampler(const LoadedModel& model, const diffusion::SchedulerConfig& scheduler,
                                                 const SampleInputs& inputs, const SamplingOptions& options) {
  check_guidance(model, inputs, options);
  const std::string problem = timestep_problem(model.unet->config(), scheduler);
  if (!problem.empty()) throw base::OutputError("{}: {}", model.scheduler_origin, problem);
  std::unique_ptr<diffusion::Sampler> sampler = diffusion::make_sampler(scheduler, options.sampler);
  check_embeddings(model.unet->config(), *sampler, inputs, options);
  if (options.weak) check_embeddings(options.weak->unet->config(), *sampler, inputs, options);
  return sampler;
}

BatchSampler::BatchSampler(const LoadedModel& model, diffusion::Sampler& sampler, const SampleInputs& inputs,
                           const SamplingOptions& options, NoiseSource noise, at::Device device)
    : model_(model), sampler_(sampler), inputs_(inputs), options_(options), noise_(std::move(noise)), device_(device) {
  if (options.overlap) windows_.emplace(model, *options.overlap, device);
}

/// `work` on whole images, or the mean of what it makes of their windows.
diffusion::Denoiser BatchSampler::by_windows(Work work, Given given) const {
  return [this, work = std::move(work), given = std::move(given)](const at::Tensor& x, const at::Tensor& t) {
    if (!windows_) return work(x, t, given);
    const int64_t n = x.size(0);
    return windows_->mean(n, std::max<int64_t>(1, options_.batch / n), [&](layout::Range windows) {
      return work(windows_->cut(x, windows), t.repeat_interleave(windows.size(), 0), windows_->cut(given, windows))
          .to(at::kFloat);
    });
  };
}

Given BatchSampler::seen(Given given) const {
  if (given.beside.defined()) given.beside = tiles_.model->cut(given.beside);
  return given;
}

diffusion::Denoiser BatchSampler::prediction_of(const LoadedModel& model, Given given) const {
  const auto predict = [this, &model](const at::Tensor& x, const at::Tensor& t, const Given& beside) {
    nn::UnitExecutor directly;
    const at::Tensor shown = x.to(nn::input_dtype(model.unet->config(), model.dtype));
    return model.unet->forward(model_input(shown, beside.beside), t, beside.conditions, nn::RandomContext{},
                               *tiles_.model, executor_ != nullptr ? *executor_ : directly);
  };
  return by_windows(predict, std::move(given));
}

GivenTwice BatchSampler::read(int64_t first, int64_t n) const {
  const bool guides_itself = options_.guidance_scale && !options_.weak;
  return guides_itself ? inputs_.with_and_without(first, n) : GivenTwice{.whole = inputs_.of(first, n)};
}

at::Tensor BatchSampler::draw(int64_t first, int64_t n, const diffusion::SampleProgress& progress) {
  at::Tensor images = draw_given(first, n, read(first, n), progress);
  expect_finite(images, first);
  return images;
}

at::Tensor BatchSampler::draw_given(int64_t first, int64_t n, const GivenTwice& of_images,
                                    const diffusion::SampleProgress& progress) {
  const at::NoGradGuard no_grad;
  const Given given = seen(of_images.whole);
  diffusion::Denoiser denoise = prediction_of(model_, given);
  if (options_.guidance_scale) {
    diffusion::Denoiser weak =
        options_.weak ? prediction_of(*options_.weak, given) : prediction_of(model_, seen(of_images.without));
    denoise = diffusion::guided(std::move(denoise), std::move(weak), *options_.guidance_scale);
  }
  const at::Tensor noise = noise_(first, n).to(device_);
  const diffusion::SampleNoise fresh{options_.seed, static_cast<uint64_t>(first), noise_shape(noise, *tiles_.model)};
  at::Tensor valid = of_images.whole.valid;
  if (valid.defined()) valid = tiles_.model->cut(valid);
  at::Tensor images = diffusion::sample(sampler_, fresh, noise, denoise, progress, valid);
  if (model_.mean) {
    const auto mean = [this](const at::Tensor& x, const at::Tensor& /*t*/, const Given& beside) {
      return mean_image(*model_.mean, x, beside.beside, beside.conditions, *tiles_.mean);
    };
    const at::Tensor timesteps = at::zeros({n}, images.options().dtype(at::kLong));
    images = images + by_windows(mean, given)(images, timesteps);
  }
  if (valid.defined()) images = at::where(valid, images, at::zeros({}, images.options()));
  return tiles_.model->whole(images).to(at::kCPU).contiguous();
}

void expect_finite(const at::Tensor& images, int64_t first) {
  for (int64_t i = 0; i < images.size(0); ++i) {
    if (images[i].isfinite().all().item<bool>()) continue;
    throw base::NumericsError(
        "sample {} holds values that are not finite; wanted: a model of finite weights, and parameters and conditions "
        "of the size that it was trained on",
        first + i);
  }
}

void collect_round(comm::Communicator& world, std::span<const int64_t> ranks, const layout::DealtBatches& batches,
                   int64_t round, const at::Tensor& images, const ImageSink& sink) {
  if (world.rank() != 0 && images.defined()) {
    world.send({images.const_data_ptr<float>(), images.numel(), base::DType::f32}, 0, comm::tags::kImages).wait();
  }
  std::vector<std::pair<int64_t, at::Tensor>> received;
  for (std::size_t dealt = 0; world.rank() == 0 && dealt < ranks.size(); ++dealt) {
    const layout::Range theirs = batches.items(round, static_cast<int64_t>(dealt));
    if (theirs.empty()) break;
    at::Tensor part = images;
    if (dealt != 0) {
      part = at::empty({theirs.size(), images.size(1), images.size(2), images.size(3)}, at::kFloat);
      world
          .receive({part.mutable_data_ptr<float>(), part.numel(), base::DType::f32}, static_cast<int>(ranks[dealt]),
                   comm::tags::kImages)
          .wait();
    }
    received.emplace_back(theirs.begin, part);
  }
  comm::agree(world, [&] {
    for (const auto& [first, part] : received) sink(first, part);
  });
}

void sample_images(BatchSampler& sampler, const SamplingOptions& options, const ImageSink& sink,
                   const layout::Mesh& mesh, const run::Runtime& runtime) {
  comm::Communicator& world = runtime.session.world();
  const Dealt dealt = deal(options, mesh, world.rank());
  const int64_t rounds = dealt.batches.rounds();
  observe::ProgressBar progress(
      observe::progress_style(observe::ProgressChoice::automatic, runtime.log.speaks(), base::stderr_is_terminal()),
      {.label = "sample", .total = rounds * options.sampler.steps, .images_per_unit = 0});

  for (int64_t round = 0; round < rounds; ++round) {
    const layout::Range mine = dealt.batches.items(round, dealt.number);
    GivenTwice given;
    comm::agree(world, [&] {
      if (!mine.empty()) given = sampler.read(mine.begin, mine.size());
    });
    at::Tensor images;
    if (!mine.empty()) {  // ranks that draw the same images have the same share
      images = sampler.draw_given(mine.begin, mine.size(), given, [&](std::size_t done, std::size_t total) {
        base::pulse();
        progress.update(round * static_cast<int64_t>(total) + static_cast<int64_t>(done));
      });
    }
    comm::agree(world, [&] {
      if (images.defined()) expect_finite(images, mine.begin);
    });
    collect_round(world, dealt.ranks, dealt.batches, round, dealt.speaks ? images : at::Tensor(), sink);
  }
}

void sample_together(BatchSampler& sampler, const SamplingOptions& options, const ImageSink& sink,
                     comm::Communicator& world, const layout::Mesh& mesh, const diffusion::SampleProgress& progress) {
  const Dealt dealt = deal(options, mesh, world.rank());
  for (int64_t round = 0; round < dealt.batches.rounds(); ++round) {
    const layout::Range mine = dealt.batches.items(round, dealt.number);
    const layout::Range drawn = mine.empty() ? dealt.batches.items(0, 0) : mine;
    GivenTwice given;
    comm::agree(world, [&] { given = sampler.read(drawn.begin, drawn.size()); });
    const at::Tensor images = sampler.draw_given(drawn.begin, drawn.size(), given, progress);
    const bool hands_over = dealt.speaks && !mine.empty();
    collect_round(world, dealt.ranks, dealt.batches, round, hands_over ? images : at::Tensor(), sink);
  }
}

}  // namespace ddpm::denoise
