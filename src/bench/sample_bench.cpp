#include "bench/sample_bench.h"

#include <memory>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pulse.h"
#include "bench/precision_name.h"
#include "comm/collectives.h"
#include "denoise/model_inputs.h"
#include "device/choose_device.h"
#include "diffusion/samplers.h"
#include "nn/unet2d.h"
#include "run/placement.h"

namespace ddpm::bench {
namespace {

diffusion::ImageShape shape_of(const nn::UNet2DConfig& model) {
  const nn::ImageSize size = nn::image_size(model);
  return {model.out_channels, size.rows(), size.width};
}

diffusion::SamplerType sampler_of(const SampleBenchOptions& options, diffusion::Formulation formulation) {
  if (options.scheduler) return *options.scheduler;
  return formulation == diffusion::Formulation::ddpm ? kSamplerOfDdpm : diffusion::default_sampler(formulation);
}

/// The model with zeros for all that it is given beside noisy images.
diffusion::Denoiser denoiser_of(const nn::UNet2D& unet, at::ScalarType dtype) {
  return [&unet, dtype](const at::Tensor& x, const at::Tensor& t) {
    const nn::UNet2DConfig& c = unet.config();
    const int64_t n = x.size(0);
    at::Tensor beside;
    if (c.in_channels > c.out_channels) {
      beside = at::zeros({n, c.in_channels - c.out_channels, x.size(2), x.size(3)}, x.options());
    }
    nn::Conditions given;
    if (nn::is_class_conditional(c)) given.class_labels = at::zeros({n}, x.options().dtype(at::kLong));
    if (c.num_parameters) given.parameters = at::zeros({n, *c.num_parameters}, x.options());
    const at::Tensor shown = x.to(nn::input_dtype(c, dtype));
    return unet.forward(denoise::model_input(shown, beside), t, given, nn::RandomContext{});
  };
}

}  // namespace

SampleBench bench_sample(const train::Config& config, const nn::UNet2DConfig& model, const run::Runtime& runtime,
                         const SampleBenchOptions& options) {
  const at::NoGradGuard no_grad;
  comm::Communicator& world = runtime.session.world();
  run::CommonConfig drawn = config;
  drawn.run.reproducible = false;  // it is for training: `ddpm sample` does not know it
  const run::Placement place = run::Placement::make(drawn, runtime.session, runtime.log);
  device::choose_inference_kernels(place.device, config.precision.allow_tf32);
  std::unique_ptr<nn::UNet2D> unet;
  std::unique_ptr<diffusion::Sampler> sampler;
  at::Tensor noise;
  comm::agree(world, [&] {
    const diffusion::ImageShape shape = shape_of(model);
    unet = std::make_unique<nn::UNet2D>(model);
    nn::allocate(unet->parameters(), at::TensorOptions().dtype(place.compute_dtype).device(place.device));
    nn::initialize(unet->parameters(), static_cast<uint64_t>(config.run.seed));
    unet->prepare_for_inference();
    const diffusion::SchedulerConfig& scheduler = config.diffusion.scheduler;
    sampler = diffusion::make_sampler(
        scheduler, {.scheduler = sampler_of(options, scheduler.formulation), .steps = options.steps});
    noise = diffusion::initial_noise(0, 0, options.batch, shape, place.device);
  });
  const diffusion::Denoiser denoise = denoiser_of(*unet, place.compute_dtype);
  std::vector<double> images;
  std::vector<double> seconds_per_step;
  for (int64_t round = 0; round <= options.repeats; ++round) {
    world.barrier().wait();
    const auto start = base::Clock::now();
    comm::agree(world, [&] {
      // To the host: a GPU is done when its images are there.
      diffusion::sample(*sampler, {}, noise, denoise, [](std::size_t, std::size_t) { base::pulse(); }).to(at::kCPU);
    });
    const double seconds = comm::all_reduce(world, base::seconds_since(start), comm::ReduceOp::max);
    if (round == 0) continue;  // the first one makes what the others find
    images.push_back(static_cast<double>(options.batch * world.size()) / seconds);
    seconds_per_step.push_back(seconds / static_cast<double>(sampler->timesteps().size()));
  }
  return {.ranks = world.size(),
          .threads = at::get_num_threads(),
          .precision = precision_name(config.precision.mixed_precision),
          .steps = options.steps,
          .batch = options.batch,
          .images_per_second = spread_of(images),
          .seconds_per_step = spread_of(seconds_per_step)};
}

}  // namespace ddpm::bench
