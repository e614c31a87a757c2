#include "cli/sample.h"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "cli/ranges.h"
#include "cli/sample_output.h"
#include "comm/collectives.h"
#include "comm/launch.h"
#include "denoise/class_label.h"
#include "denoise/sampling.h"
#include "device/choose_device.h"
#include "device/host_memory.h"
#include "device/threads.h"
#include "diffusion/samplers.h"
#include "diffusion/scheduler_json.h"
#include "observe/npy.h"
#include "run/run_program.h"
#include "train/run_model.h"

namespace ddpm::cli {
namespace {

constexpr int64_t kMaxImages = 1'000'000'000;
constexpr int64_t kMaxSteps = 1'000'000;  // no schedule has more timesteps
constexpr int64_t kMaxThreads = 4096;

struct Options {
  std::string model;
  std::string weights;
  std::string output;
  std::string initial_noise;
  std::optional<std::string> timestep_spacing;
  std::optional<std::string> class_label;
  std::string device{base::name_of(device::DeviceChoice::automatic)};
  std::optional<int64_t> steps;
  int threads = 0;
  bool denormalize = false;
  denoise::SamplingOptions sampling;
};

/// ddim is meant for few steps; ddpm takes all of them unless told otherwise.
int64_t default_steps(const std::string& sampler, const diffusion::SchedulerConfig& scheduler) {
  return sampler == "ddpm" ? scheduler.num_train_timesteps : 50;
}

/// Checks the whole array before any work, since one value that is not finite spoils its whole picture.
void check_finite(observe::NpyReader& reader, const std::string& path, const std::vector<int64_t>& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape[1] * shape[2] * shape[3]));
  for (int64_t image = 0; image < shape[0]; ++image) {
    reader.read(image * std::ssize(values), values);
    const auto odd = std::find_if_not(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    if (odd == values.end()) continue;
    throw base::ConfigError("--initial-noise {}: value {} of image {} is {}; unit normal values are wanted", path,
                            odd - values.begin(), image, *odd);
  }
}

/// Reads parts of --initial-noise, an array [count, C, H, W].
denoise::NoiseSource file_noise(const std::string& path, const std::vector<int64_t>& shape) {
  auto reader = std::make_shared<observe::NpyReader>(path);
  if (reader->shape() != shape) {
    throw base::ConfigError("--initial-noise {}: its shape is [{}]; [{}] (count, channels, height, width) is wanted",
                            path, fmt::join(reader->shape(), ", "), fmt::join(shape, ", "));
  }
  check_finite(*reader, path, shape);
  return [reader, shape](int64_t first, int64_t count) {
    at::Tensor noise = at::empty({count, shape[1], shape[2], shape[3]}, at::kFloat);
    const int64_t elements = shape[1] * shape[2] * shape[3];
    reader->read(first * elements, {noise.mutable_data_ptr<float>(), static_cast<std::size_t>(noise.numel())});
    return noise;
  };
}

void run(Options options, Context& context) {
  comm::MpiSession& session = context.session;
  comm::Communicator& world = session.world();
  const at::Device device =
      device::choose_device(*base::find_named<device::DeviceChoice>(options.device), session, context.log);
  device::keep_freed_memory();
  device::start_threads(options.threads, session);
  context.enter("loading the model");
  const denoise::LoadedModel model =
      denoise::load_model(options.model, options.weights, train::read_run_model, context, device);
  const diffusion::ImageShape shape{model.unet->config().in_channels, model.image.height, model.image.width};

  diffusion::SamplerOptions& sampler = options.sampling.sampler;
  if (options.timestep_spacing) {
    sampler.timestep_spacing = base::find_named<diffusion::TimestepSpacing>(*options.timestep_spacing);
  }
  diffusion::SchedulerConfig scheduler;
  denoise::NoiseSource noise = denoise::seeded_noise(options.sampling.seed, shape);
  std::unique_ptr<SampleOutput> output;
  std::unique_ptr<diffusion::Sampler> chosen;
  comm::agree(world, [&] {
    scheduler = diffusion::read_scheduler(model.scheduler, sampler.scheduler, model.scheduler_origin);
    sampler.steps = options.steps.value_or(default_steps(sampler.scheduler, scheduler));
    if (options.class_label) {
      options.sampling.class_label = denoise::class_of(*options.class_label, model.image.class_names, context.log);
    }
    chosen = denoise::make_sampler(model, scheduler, options.sampling);
    const std::vector<int64_t> axes = {options.sampling.count, shape.channels, shape.height, shape.width};
    if (!options.initial_noise.empty()) noise = file_noise(options.initial_noise, axes);
    if (session.rank() == 0)
      output = make_sample_output(context.files, options.output, axes, model.image, options.denormalize);
  });
  if (output) run::remove_on_abort(context, output->unfinished());
  context.enter("making the images");
  const auto& label = options.sampling.class_label;
  context.log.info("sampling {}{} with {} in {} from {} ({})", base::counted(options.sampling.count, "image"),
                   label ? " of " + denoise::described_class(*label, model.image.class_names) : "", sampler.scheduler,
                   base::counted(sampler.steps, "step"), options.model, model.description);
  denoise::sample_images(
      model, *chosen, options.sampling, noise,
      [&](int64_t first, const at::Tensor& images) { output->append(first, images); }, context, device);
  context.enter("writing the output");
  comm::agree(world, [&] {
    if (output) output->finish();
  });
  run::remove_on_abort(context, {});
  context.log.info("{} written", options.output);
}

void declare_options(const Subcommand& sample, Options& o) {
  sample.add("--model", &o.model, "A run, a checkpoint, or a diffusers model folder").required();
  sample.add("--weights", &o.weights, "raw, ema or ema:I; the first average where there is one");
  sample.add("--scheduler", &o.sampling.sampler.scheduler, "Sampler")
      .accept(OneOf{diffusion::sampler_names()})
      .show_default();
  sample.add("--steps", &o.steps, "Sampler steps (ddpm: all training timesteps; others: 50)")
      .accept(IntegerRange{1, kMaxSteps});
  sample.add("--count", &o.sampling.count, "Number of images").accept(IntegerRange{1, kMaxImages}).show_default();
  sample.add("--batch", &o.sampling.batch, "Images per rank and forward pass")
      .accept(IntegerRange{1, kMaxImages})
      .show_default();
  sample.add("--seed", &o.sampling.seed, "Image i is a function of (seed, i)").accept(SeedRange{}).show_default();
  sample.add("--eta", &o.sampling.sampler.eta, "ddim: 0 deterministic, 1 as random as ddpm")
      .accept(NumberRange{0.0, 1.0})
      .show_default();
  sample.add("--timestep-spacing", &o.timestep_spacing, "Replaces the model's own")
      .accept(OneOf{base::all_names<diffusion::TimestepSpacing>()});
  sample.add("--class-label", &o.class_label, "Class of all images, for a class-conditional model: its number or name");
  sample.add_flag("--denormalize", o.denormalize, "Write stored values (.npy, .h5), not the model's range");
  sample.add("--initial-noise", &o.initial_noise, "Unit normal float32 [count, C, H, W] as .npy");
  sample.add("--device", &o.device, "Where to compute")
      .accept(OneOf{base::all_names<device::DeviceChoice>()})
      .show_default();
  sample.add("--threads", &o.threads, "Threads per rank; 0: derived from the CPUs of the rank")
      .accept(IntegerRange{0, kMaxThreads})
      .show_default();
  sample.add("--output", &o.output, "X.png (a grid), X.npy (float32 NCHW), X.h5 (a dataset), or a folder of PNGs")
      .required();
}

}  // namespace

void add_sample_command(const Subcommand& program, Command& command) {
  auto options = std::make_shared<Options>();
  const Subcommand sample = program.add_subcommand("sample", "Make pictures with a trained model");
  declare_options(sample, *options);
  sample.on_chosen([options, &command] {
    command = {.run = [options](Context& context) { run(*options, context); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
